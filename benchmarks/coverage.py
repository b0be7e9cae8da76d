"""Does the 95% interval of one run cover the truth, for 28 kinds of disturbance?

    python benchmarks/coverage.py [--trials 1000] [--only WORD] [--lengths 100,300,1000,3000] [--no-stopping]

tests/noise_kinds.py makes the series and says what is true. Columns are fixed numbers of steps, and runs that end by
the default stopping rule (steps of 20 ms, target ±1%, 5 to 120 s; the rule is fed block by block as in a real run). A
cell has: how many of 100 intervals that were given contain the truth; `refused` out of 100 runs, without an interval,
and how many of these name what was planted; the median half width; after stopping also the median number of steps.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT / "src"), str(_ROOT / "tests")]
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # small matrices: threads only cost

import numpy as np  # noqa: E402

from noise_kinds import KINDS, SAMPLES, Floats, Kind, Truth  # noqa: E402
from trainmark.analyse.estimate import Estimate  # noqa: E402
from trainmark.analyse.throughput import estimate_throughput  # noqa: E402
from trainmark.controller.stopping_watch import make_rule  # noqa: E402
from trainmark.spec.suite import Measure  # noqa: E402

_MEASURE = Measure()
_BLOCK_S = 0.25
STOPPING = 0
"""Stands for the stopping rule among the lengths."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    is_refused: bool
    is_named: bool
    is_covered: bool
    half_width: float
    num_steps: int


def run_trial(kind: Kind, length: int, seed: int) -> Trial:
    random = np.random.default_rng([seed, length, KINDS.index(kind)])
    seconds, truth = kind.make(random, length or 6000)
    if length == STOPPING:
        seconds = seconds[: stop(seconds)]
    return judge(estimate_throughput(seconds, SAMPLES), truth, kind, len(seconds))


def stop(seconds: Floats) -> int:
    """How many steps are measured if the default rule decides. A block that is under way is finished."""
    rule = make_rule(_MEASURE)
    ends = np.cumsum(seconds)
    begin = 0
    while begin < len(seconds) and (begin == 0 or ends[begin - 1] < _MEASURE.max_seconds):
        end = int(np.searchsorted(ends, (ends[begin - 1] if begin else 0.0) + _BLOCK_S)) + 1
        block = seconds[begin:end].tolist()
        begin = min(end, len(seconds))
        if rule.add(block, [SAMPLES] * len(block)) is not None:
            return int(min(begin + len(block), len(seconds)))
    return begin


def judge(estimate: Estimate, truth: Truth, kind: Kind, num_steps: int) -> Trial:
    rate = SAMPLES / truth(num_steps)
    named = any(doubt.code in kind.causes for doubt in estimate.doubts)
    if estimate.ci95 is None:
        return Trial(is_refused=True, is_named=named, is_covered=False, half_width=math.nan, num_steps=num_steps)
    low, high = estimate.ci95
    # A true rate that equals a bound up to rounding is covered.
    covered = low * (1 - 1e-12) <= rate <= high * (1 + 1e-12)
    width = estimate.relative_half_width or 0.0
    return Trial(is_refused=False, is_named=named, is_covered=covered, half_width=width, num_steps=num_steps)


def summarise(trials: list[Trial]) -> dict[str, float]:
    refused = [trial for trial in trials if trial.is_refused]
    given = [trial for trial in trials if not trial.is_refused]
    return {
        "covered": float(np.mean([trial.is_covered for trial in given])) if given else math.nan,
        "refused": len(refused) / len(trials),
        "named": float(np.mean([trial.is_named for trial in refused])) if refused else math.nan,
        "half_width": float(np.median([trial.half_width for trial in given])) if given else math.nan,
        "steps": float(np.median([trial.num_steps for trial in trials])),
    }


def run_cell(task: tuple[str, int, int, int]) -> list[Trial]:
    name, length, begin, end = task
    kind = next(kind for kind in KINDS if kind.name == name)
    return [run_trial(kind, length, seed) for seed in range(begin, end)]


def describe(found: dict[str, float], *, with_steps: bool) -> str:
    parts = []
    if not math.isnan(found["covered"]):
        parts.append(f"{100 * found['covered']:.0f}% ±{100 * found['half_width']:.2g}%")
    if found["refused"]:
        named = "" if math.isnan(found["named"]) else f" (named {100 * found['named']:.0f}%)"
        parts.append(f"refused {100 * found['refused']:.3g}%{named}")
    return ", ".join(parts) + (f", {found['steps']:.0f} steps" if with_steps else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--lengths", default="100,300,1000,3000")
    parser.add_argument("--no-stopping", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    lengths = [int(word) for word in args.lengths.split(",") if word] + ([] if args.no_stopping else [STOPPING])
    kinds = [kind for kind in KINDS if args.only in kind.name]
    chunk = min(args.trials, 50)
    spans = [(begin, min(begin + chunk, args.trials)) for begin in range(0, args.trials, chunk)]
    begin_s = time.perf_counter()
    print(f"| kind | {' | '.join(f'{length} steps' if length else 'default rule' for length in lengths)} |")
    print(f"|---|{'---|' * len(lengths)}", flush=True)
    with Pool(args.processes) as pool:
        for kind in kinds:
            tasks = [(kind.name, length, *span) for length in lengths for span in spans]
            results = pool.map(run_cell, tasks, chunksize=1)
            cells = []
            for place, length in enumerate(lengths):
                trials = [trial for chunk in results[place * len(spans) : (place + 1) * len(spans)] for trial in chunk]
                cells.append(describe(summarise(trials), with_steps=length == STOPPING))
            print(f"| {kind.name} | {' | '.join(cells)} |", flush=True)
    print(f"\n{args.trials} trials each, {time.perf_counter() - begin_s:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
