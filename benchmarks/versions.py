"""The speed of `reference` in several versions of this code, measured in turns: what did a change of the work cost?

Each version is the `src` folder of a checkout, such as one made by `git worktree add before COMMIT`. All versions of a
row are started, then measured in turns by the same loop, this file's own. Rows are WORKLOAD:PRECISION:BATCH, or
WORKLOAD:PRECISION:BATCH:RECIPE for a recipe that only some versions have. The default ones take 5 minutes on a GPU.

    python benchmarks/versions.py --version before=before/src --version now=src  # the seeds' rows, on a GPU
    python benchmarks/versions.py --rows resnet50:fp32:2 --size small --rounds 2 --device cpu  # this version only
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

_ROWS = (
    "hrnet_w18:amp:8", "mask_rcnn:amp:4", "mask_rcnn:amp:4:torchvision", "resnet50:amp:128", "tsm:amp:16",
    "psenet:amp:16", "hrnet_w18:fp32:8", "mask_rcnn:fp32:4", "psenet:fp32:16",
)  # fmt: skip
_BLOCK_S = 0.2


def main() -> None:
    args = read_arguments()
    versions = dict(part.split("=", 1) for part in args.version)
    rows = list(args.rows)
    while rows:
        group, rows = rows[: args.together], rows[args.together :]
        started = {row: start(row, versions, args) for row in group}
        ready = {row: wait_for(processes, args) for row, processes in started.items()}
        for row in group:
            line = measure(row, *ready[row], first=next(iter(versions)), args=args)
            print_line(line)
            with args.output.open("a") as file:
                file.write(json.dumps(line) + "\n")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="append", metavar="NAME=SRC", help="again for each version")
    parser.add_argument("--rows", nargs="+", default=_ROWS)
    parser.add_argument("--size", default="full")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each version in each round")
    parser.add_argument("--together", type=int, default=1, help="rows to start at the same time (memory!)")
    parser.add_argument("--device", default="cpu" if not Path("/dev/nvidia0").exists() else "cuda")
    parser.add_argument("--output", type=Path, default=Path("versions.jsonl"))
    args = parser.parse_args()
    args.version = args.version or [f"now={Path(__file__).parents[1] / 'src'}"]
    return args


def start(row: str, versions: dict[str, str], args: argparse.Namespace) -> dict[str, Any]:
    from trainmark.controller.turns import Prepared, Variant
    from trainmark.spec.cell import Cell, DataSource

    workload, precision, batch_size, *rest = row.split(":")
    cell = Cell(
        workload=workload, framework="torch", recipe=rest[0] if rest else "reference", precision=precision,
        size=args.size, device=args.device, nodes=1, devices_per_node=1, batch_size_per_device=int(batch_size),
        data=DataSource(), epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    return {
        name: Prepared(
            Variant(
                name=f"{row} {name}",
                cell=cell,
                program=(str(Path(__file__).absolute()), "serve"),
                environment={"PYTHONPATH": f"{Path(source).absolute()}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
            )
        )
        for name, source in versions.items()
    }


def wait_for(started: dict[str, Any], args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, str]]:
    """Those that trained for a moment, and why the others did not: a version may lack the recipe."""
    from trainmark.errors import RunError

    prepared, failed = {}, {}
    for name, one in started.items():
        try:
            prepared[name] = one.wait_for_first_step()
            one.measure(args.seconds / 2)  # lets the loss scaler and the clocks settle
            one.rates.clear()
        except RunError as error:
            failed[name] = str(error.why).splitlines()[-1]
    return prepared, failed


def measure(
    row: str, prepared: dict[str, Any], failed: dict[str, str], *, first: str, args: argparse.Namespace
) -> dict[str, Any]:
    from trainmark.controller.turns import measure_in_turns, ratio, summarise

    measure_in_turns(list(prepared.values()), rounds=args.rounds, seconds=args.seconds)
    for one in prepared.values():
        one.end()
    return {
        "row": row,
        "size": args.size,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "failed": failed,
        "versions": {
            name: {
                "rate": asdict(summarise(one.rates)),
                "rounds": one.rates,
                "ratio": asdict(ratio(one, prepared[first])) if first in prepared else None,
                "peak_memory_bytes": one.peak_memory_bytes,
                **one.first,
            }
            for name, one in prepared.items()
        },
    }


def print_line(line: dict[str, Any]) -> None:
    from trainmark.controller.turns import Spread

    for name, found in line["versions"].items():
        rate = Spread(**found["rate"])
        of_first = "" if found["ratio"] is None else f"  {Spread(**found['ratio']).to_text('.3f')}"
        memory = (found["peak_memory_bytes"] or 0) / 1e9
        print(
            f"{line['row']:<28} {name:<8} {rate.to_text()}{of_first}"
            f"  {memory:.1f} GB  loss {found['first_loss']:.4f}  card version {found['card_version']}",
            flush=True,
        )
    for name, why in line["failed"].items():
        print(f"{line['row']:<28} {name:<8} did not start: {why}", flush=True)


# -- inside a measured process: only what every version has -----------------------------------------------------------


def serve(request: dict[str, Any]) -> None:
    """Answers as `trainmark.worker.variant` does, which older versions lack."""
    answers, sys.stdout = sys.stdout, sys.stderr
    from trainmark.runfolder.document import CellRecord
    from trainmark.worker.torch.engine import TorchEngine
    from trainmark.workloads.registry import load_card

    cell = CellRecord.from_json(request["cell"]).workload_cell()
    if cell.device == "cuda":
        load_libraries()
    # One process at a time: in its first step cuDNN chooses algorithms by timing them.
    with Path(tempfile.gettempdir(), f"trainmark-versions-{os.getppid()}").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        engine = TorchEngine(cell)
        engine.begin_epoch(0)
        engine.step()
        handle = engine.queue_loss()
        engine.wait()
    first = {
        "first_loss": engine.read_loss(handle),
        "card_version": getattr(load_card(cell.workload), "version", 1),
        "source": str(Path(sys.modules["trainmark"].__path__[0])),
        "facts": {name: engine.facts().get(name) for name in ("framework", "cuda", "cudnn", "device_name", "flags")},
    }
    print(json.dumps(first), file=answers, flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        if command != "measure":
            break
        answer = {
            "blocks": time_blocks(engine, float(words[0])),
            "samples_per_step": engine.samples_per_step,
            "peak_memory_bytes": engine.peak_memory_bytes(),
        }
        print(json.dumps(answer), file=answers, flush=True)


def load_libraries() -> None:
    """Takes seconds and can be done by all processes at the same time."""
    import torch

    with torch.autocast("cuda", torch.float16):
        layers = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten())
        layers.to("cuda")(torch.zeros(2, 8, 8, 8, device="cuda")).sum().backward()
    torch.cuda.synchronize()


def time_blocks(engine: Any, seconds: float) -> Sequence[tuple[int, float]]:
    """(steps, seconds) of blocks between two waits, without the first quarter of them."""
    blocks: list[tuple[int, float]] = []
    num_steps, end = 1, time.perf_counter() + seconds
    while not blocks or time.perf_counter() < end:
        engine.wait()
        begin = engine.timestamp()
        for _ in range(num_steps):
            engine.step()
        stamp = engine.timestamp()
        engine.wait()
        spent = engine.seconds_between(begin, stamp)
        blocks.append((num_steps, spent))
        num_steps = max(1, min(2 * num_steps, round(num_steps * _BLOCK_S / max(spent, 1e-9))))
    return blocks[len(blocks) // 4 :]


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(json.loads(sys.argv[2]))
    else:
        main()
