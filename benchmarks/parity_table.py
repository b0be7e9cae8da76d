"""The table of docs/concepts/parity.md: `trainmark parity` for every workload and stage, and what it found in Markdown.

    python benchmarks/parity_table.py STORE --jobs 2                     # what is missing in the store, then the table
    python benchmarks/parity_table.py STORE --jobs 10 --at-once 5 --seconds 500    # with many cores, for a limited time
    python benchmarks/parity_table.py STORE --print-only

Each stage of a workload is a command of its own, the short ones first. One that is cut off keeps what it has computed,
so the same call continues it. A stage counts as done if the store has it for today's code and the installed frameworks;
what is not done is printed as "not run". One that failed is done too, and is printed with where it failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainmark.analyse.parity_command import USUAL_SIZE
from trainmark.controller.parity_options import precisions_of, usable_frameworks
from trainmark.controller.parity_proofs import is_installed, read_proofs
from trainmark.runfolder.parity import (
    MATHEMATICS,
    REFERENCE,
    ROUNDING,
    TRAJECTORY,
    USUAL_SEED,
    WORK,
    PairRecord,
    StageRecord,
)

WORKLOADS = ("resnet50", "tsm", "hrnet_w18", "psenet", "mask_rcnn")
_COLUMNS = ((MATHEMATICS, "fp64"), (ROUNDING, "fp32"), (ROUNDING, "bf16"), (TRAJECTORY, "fp32"), (WORK, "fp32"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--stages", default=f"{WORK},{MATHEMATICS},{ROUNDING},{TRAJECTORY}")
    parser.add_argument("--seed", type=int, default=USUAL_SEED, help="of weights, batches and orders (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes of one command at a time (default: 1)")
    parser.add_argument("--at-once", type=int, default=1, help="commands at a time (default: 1)")
    parser.add_argument("--seconds", type=float, help="after which commands are cut off (default: no limit)")
    parser.add_argument("--print-only", action="store_true")
    args = parser.parse_args()
    workloads = args.workloads.split(",")
    if not args.print_only:
        cells = [(workload, stage) for stage in args.stages.split(",") for workload in workloads]
        begin = time.monotonic()
        with ThreadPoolExecutor(args.at_once) as pool:
            list(pool.map(lambda cell: run_missing(*cell, args, begin), cells))
    print_table(args.store, workloads, args.seed)
    return 0


def run_missing(workload: str, stage: str, args: argparse.Namespace, begin: float) -> None:
    if is_done(args.store, workload, stage, args.seed):
        return
    names = ",".join(usable_frameworks(workload))
    command = ["parity", workload, "--frameworks", names, "--stages", stage, "--jobs", str(args.jobs)]
    command += ["--seed", str(args.seed)]
    started = time.monotonic()
    left = None if args.seconds is None else max(1.0, args.seconds - (started - begin))
    process = subprocess.Popen(
        [sys.executable, "-m", "trainmark.cli.main", *command, "--json", "--store", str(args.store)],
        stdout=subprocess.DEVNULL,
    )
    try:
        ended = f"exit code {process.wait(left)}"
    except subprocess.TimeoutExpired:
        process.terminate()  # it ends its own processes
        process.wait()
        ended = "cut off"
    print(f"{workload} {stage}: {ended} after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def is_done(store: Path, workload: str, stage: str, seed: int = USUAL_SEED) -> bool:
    """For every pair of what is installed here. A trajectory that is too short to count is not done."""
    names = usable_frameworks(workload)
    wanted = {(one, other) for number, one in enumerate(names) for other in names[number + 1 :]}
    found = {
        (pair.one.framework, pair.other.framework)
        for pair, own in stages_of(store, workload, seed)
        if own.stage == stage and not own.is_short
    }
    return wanted <= found


def stages_of(store: Path, workload: str, seed: int) -> Iterator[tuple[PairRecord, StageRecord]]:
    """The newest first, of today's code and the installed frameworks; the recipe `reference`, on the CPU, small."""
    wanted = (workload, seed, "cpu", USUAL_SIZE)
    for record in read_proofs([store]).current:
        if (record.workload, record.seed, record.device, record.size) != wanted:
            continue
        for pair in record.pairs:
            if all(side.recipe == REFERENCE[1] and is_installed(workload, side) for side in (pair.one, pair.other)):
                yield from ((pair, stage) for stage in pair.stages)


def print_table(store: Path, workloads: list[str], seed: int) -> None:
    heads = [f"{stage} {precision}" if stage == ROUNDING else stage for stage, precision in _COLUMNS]
    print(f"| workload | pair | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 2)}")
    versions: dict[str, None] = {}
    for workload in workloads:
        found: dict[tuple[str, str], dict[tuple[str, str], StageRecord]] = {}
        names = usable_frameworks(workload)
        for number, one in enumerate(names):
            found |= {(one, other): {} for other in names[number + 1 :]}
        for pair, stage in stages_of(store, workload, seed):
            key = (pair.one.framework, pair.other.framework)
            found.setdefault(key, {}).setdefault((stage.stage, stage.precision), stage)
            versions |= dict.fromkeys((pair.one.version, pair.other.version))
        for pair_names, own in found.items():
            cells = [describe(own.get(column), column, pair_names) for column in _COLUMNS]
            print(f"| {workload} | {' / '.join(pair_names)} | {' | '.join(cells)} |")
    print(f"\n{', '.join(versions) or 'nothing has been run'}")


def describe(stage: StageRecord | None, column: tuple[str, str], names: tuple[str, str]) -> str:
    if stage is None:
        has_none = [name for name in names if column[1] != "fp64" and column[1] not in precisions_of(name, "cpu")]
        return f"{has_none[0]} has none" if has_none else "not run"
    measured = "∞" if stage.measured is None else f"{stage.measured:.2g}"
    return measured if stage.holds else f"{measured} **fails** at {stage.worst}"


if __name__ == "__main__":
    sys.exit(main())
