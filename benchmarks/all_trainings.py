"""Does every workload train in Paddle and JAX on a CPU, on synthetic and generated data, with 1 and 2 processes?

    python benchmarks/all_trainings.py RESULTS [--frameworks paddle,jax] [--only resnet50,tsm] [--max-minutes 9]

Every row is a `trainmark run` at size `small`: a few steps on synthetic data, and on generated data an epoch with its
evaluation. RESULTS is a folder with a line for each row in `rows.jsonl`; a row that is there is not run again, so that
an interrupted call is continued. Exits with 1 if a row did not end well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainmark.workloads.registry import load_card, load_cards

_ROOT = Path(__file__).resolve().parents[1]
_STEPS = 3
_MAX_BATCH_SIZE = 2
_IMAGES = 18
"""Images or clips: 12 for training, which are three steps of two processes."""
_CLASSES = {"imagenet": 4, "kinetics": 4}
"""Where they can be chosen."""
_QUICK_COMPILER = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""For JAX: nobody asks how fast these trainings are."""


@dataclass(frozen=True, kw_only=True)
class Row:
    framework: str
    workload: str
    data: str
    """synthetic or generated"""
    processes: int


def main() -> None:
    args = read_arguments()
    args.results.mkdir(parents=True, exist_ok=True)
    path = args.results / "rows.jsonl"
    end = time.monotonic() + 60 * args.max_minutes
    for row in rows(args.frameworks, args.only):
        if any(line["row"] == asdict(row) for line in read_lines(path)):
            continue
        if time.monotonic() > end:
            print(f"stopped after {args.max_minutes:g} minutes; run it again to continue", file=sys.stderr)
            break
        line = {"row": asdict(row), **train(row, args)}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(describe(line), file=sys.stderr, flush=True)
    lines = read_lines(path)
    print_table(lines)
    sys.exit(any(line["outcome"] != "ok" for line in lines))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--frameworks", type=lambda text: text.split(","), default=["paddle", "jax"])
    parser.add_argument("--only", type=lambda text: text.split(","), help="workloads, separated by commas")
    parser.add_argument("--max-minutes", type=float, default=1e9, help="begin no row after this time")
    parser.add_argument("--timeout-s", type=float, default=900, help="of one row")
    return parser.parse_args()


def rows(frameworks: Sequence[str], only: Sequence[str] | None) -> Iterator[Row]:
    for framework in frameworks:
        for workload in only or load_cards():
            if framework not in load_card(workload).frameworks:
                continue
            for data in ("synthetic", "generated"):
                for processes in (1, 2):
                    yield Row(framework=framework, workload=workload, data=data, processes=processes)


def train(row: Row, args: argparse.Namespace) -> dict[str, Any]:
    """The outcome of one run, from what the command printed and what its folder holds."""
    batch_size = min(_MAX_BATCH_SIZE, load_card(row.workload).sizes["small"].batch_size or 1)
    amount = ["--max-steps", str(_STEPS)]
    if row.data == "generated":
        # The recipes' rates are meant for many more steps: with so few, ResNet-50's loss went from 1.0 to 5.1.
        amount = ["--epochs", "1", "--lr", "0.001", "--data", str(make_data(row.workload, args.results))]
    store = args.results / "store"
    begin = time.monotonic()
    done = trainmark(
        "run", row.workload, "--framework", row.framework, "--size", "small", "--device", "cpu", "--fresh",
        "--devices", str(row.processes), "--batch-size", str(batch_size), "--timeout-s", str(args.timeout_s), *amount,
        "--retries", "0", "--store", str(store), "--json",
    )  # fmt: skip
    found: dict[str, Any] = {"seconds": time.monotonic() - begin, "exit_code": done.returncode}
    results = json.loads(done.stdout)["results"] if done.stdout else []
    if not results:
        return {**found, "outcome": "not started", "why": done.stderr[-1000:]}
    result = results[0]
    losses = list(read_losses(store / result["id"] / "rank0.jsonl"))
    return {
        **found,
        "outcome": result["outcome"],
        "steps": len(losses),
        "losses": [losses[0], losses[-1]] if losses else None,
        "metrics": {one["metric"]: one["value"] for one in result["evals"]},
        "why": None if result["outcome"] == "ok" else done.stderr[-1000:],
    }


def make_data(workload: str, folder: Path) -> Path:
    name = load_card(workload).dataset
    root = folder / "data" / name
    if not root.exists():
        words = ["--images", str(_IMAGES), "--val-fraction", "0.34", "--workers", "1"]
        words += ["--classes", str(_CLASSES[name])] if name in _CLASSES else []
        trainmark("data", "make", name, str(root), *words).check_returncode()
    return root


def trainmark(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "XLA_FLAGS": _QUICK_COMPILER}
    argv = [sys.executable, "-m", "trainmark.cli.main", *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def read_losses(path: Path) -> Iterator[float]:
    for line in read_lines(path):
        if line.get("loss") is not None:
            yield line["loss"]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_table(lines: Sequence[Mapping[str, Any]]) -> None:
    print("| framework | workload | data | processes | outcome | steps | loss, first to last | evaluation |")
    print("|---|---|---|---|---|---|---|---|")
    for line in lines:
        print(describe(line))


def describe(line: Mapping[str, Any]) -> str:
    losses = line.get("losses")
    metrics = ", ".join(f"{name} {value:.3f}" for name, value in (line.get("metrics") or {}).items())
    cells = [
        *map(str, line["row"].values()),
        line["outcome"],
        str(line.get("steps", "–")),
        f"{losses[0]:.3f} to {losses[1]:.3f}" if losses else "–",
        metrics or "–",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
