"""The frameworks beside each other on one device: speed with intervals, and ratios within rounds.

For each workload one process of every variant is started and then measured in turns, so that a machine that drifts
touches all alike. Each workload's line is appended to --output; a workload that has one is not measured again, so that
an interrupted benchmark resumes. --compile-first starts the variants of all workloads at once, which fills the compile
cache on all cores, before anything is measured.

    python benchmarks/frameworks.py --device cuda --compile-first
    python benchmarks/frameworks.py --only resnet50 --variants torch:reference,jax:fast --size small --batch-size 2
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainmark.controller.turns import Prepared, Spread, Variant, measure_in_turns, ratio, summarise
from trainmark.errors import RunError
from trainmark.spec.cell import Cell, DataSource
from trainmark.workloads.registry import load_card

_WORKLOADS = ["resnet50", "tsm", "psenet", "hrnet_w18"]
"""Those of all frameworks."""
_VARIANTS = ["torch:reference", "torch:fast", "jax:fast"]
_JAX_MEMORY_SHARE = "0.45"
"""JAX takes three quarters of a GPU when it starts, whatever it needs; the others must fit beside it."""


def main() -> None:
    args = read_arguments()
    done = {line["workload"] for line in read_lines(args.output)}
    missing = [name for name in args.only if name not in done]
    if args.compile_first:
        compile_all(missing, args)
    for workload in missing:
        try:
            line = measure(workload, args)
        except RunError as error:
            print(f"{workload}: {error}", flush=True)
            continue
        with args.output.open("a") as file:
            file.write(json.dumps(line) + "\n")
    print_table(read_lines(args.output))


def read_arguments() -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", type=words, default=_WORKLOADS, help="workloads, separated by commas")
    parser.add_argument("--variants", type=words, default=_VARIANTS, help="FRAMEWORK:RECIPE, separated by commas")
    parser.add_argument("--size", help="full, medium or small (default: full on a GPU, small on a CPU)")
    parser.add_argument("--batch-size", type=int, help="default: the seeds' own")
    parser.add_argument("--precision", help="of all (default: bf16 on a GPU, fp32 on a CPU)")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each variant in each round")
    parser.add_argument("--compile-first", action="store_true", help="start everything at once before measuring")
    parser.add_argument("--output", type=Path, default=Path("frameworks.jsonl"))
    args = parser.parse_args()
    args.size = args.size or ("full" if args.device == "cuda" else "small")
    args.precision = args.precision or ("bf16" if args.device == "cuda" else "fp32")
    return args


def compile_all(workloads: Sequence[str], args: argparse.Namespace) -> None:
    """One framework after the other: each uses all cores by itself."""
    for framework in dict.fromkeys(name.partition(":")[0] for name in args.variants):
        wanted = [name for name in args.variants if name.startswith(f"{framework}:") and name != "torch:reference"]
        starting = [start(workload, name, args, takes_all=False) for workload in workloads for name in wanted]
        for one in starting:
            try:
                one.wait_for_first_step()
            except RunError as error:
                print(error, flush=True)
                continue
            print(f"{one.variant.name}: first step after {one.first['first_step_s']:.0f} s, all at once", flush=True)
            one.end()


def measure(workload: str, args: argparse.Namespace) -> dict[str, Any]:
    with contextlib.ExitStack() as ending:
        prepared: dict[str, Prepared] = {}
        for name in args.variants:  # one after the other: a start that shares the cores takes longer
            prepared[name] = start(workload, name, args)
            ending.callback(prepared[name].end)
            prepared[name].wait_for_first_step()
        measure_in_turns(list(prepared.values()), rounds=args.rounds, seconds=args.seconds)
    last = prepared[args.variants[-1]]
    line = {
        "workload": workload,
        "unit": load_card(workload).unit,
        "batch_size": last.variant.cell.batch_size_per_device,
        "size": args.size,
        "precision": args.precision,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "variants": {name: describe(one) for name, one in prepared.items()},
        "ratios": {
            f"{args.variants[-1]} / {name}": asdict(ratio(last, one))
            for name, one in prepared.items()
            if one is not last
        },
    }
    print_table([line])
    return line


def start(workload: str, name: str, args: argparse.Namespace, *, takes_all: bool = True) -> Prepared:
    framework, _, recipe = name.partition(":")
    cell = Cell(
        workload=workload, framework=framework, recipe=recipe, precision=args.precision, size=args.size,
        device=args.device, nodes=1, devices_per_node=1,
        batch_size_per_device=args.batch_size or load_card(workload).sizes[args.size].batch_size or 1,
        data=DataSource(), epochs=None, lr=None, until_target=(), seed=0, repeat=1,
    )  # fmt: skip
    memory = {"XLA_PYTHON_CLIENT_MEM_FRACTION": _JAX_MEMORY_SHARE}
    if not takes_all:
        memory = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return Prepared(Variant(name=f"{workload} {name}", cell=cell, environment=memory if framework == "jax" else {}))


def describe(one: Prepared) -> dict[str, Any]:
    return {
        "rate": asdict(summarise(one.rates)),
        "rounds": one.rates,
        "first_step_s": one.first["first_step_s"],
        "first_loss": one.first["first_loss"],
        "peak_memory_bytes": one.peak_memory_bytes,
        "framework": one.first["facts"].get("framework"),
        "device_name": one.first["facts"].get("device_name"),
    }


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_table(lines: Sequence[dict[str, Any]]) -> None:
    print("| workload | framework | recipe | precision | batch | per second | 95% interval | first step |")
    print("|---|---|---|---|---|---|---|---|")
    for line in lines:
        for name, found in line["variants"].items():
            rate = Spread(**found["rate"])
            cells = [
                line["workload"], *name.split(":"), line["precision"], str(line["batch_size"]),
                f"{rate.value:,.4g} {line['unit']}", f"{rate.low:,.4g} … {rate.high:,.4g}",
                f"{found['first_step_s']:.0f} s",
            ]  # fmt: skip
            print(f"| {' | '.join(cells)} |")
    print("\n| workload | ratio | value | 95% interval |\n|---|---|---|---|")
    for line in lines:
        for name, found in line["ratios"].items():
            spread = Spread(**found)
            print(f"| {line['workload']} | {name} | {spread.value:.3f} | {spread.low:.3f} … {spread.high:.3f} |")
    print(flush=True)


if __name__ == "__main__":
    main()
