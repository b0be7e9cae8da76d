"""What tolerance fits what noise: how often `check` passes unchanged code, and how often it finds a loss. Simulated.

Runs of normal noise; tolerance and loss in units of the standard deviation between runs, and of the tolerance.

    python benchmarks/gate_power.py
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

from trainmark.analyse.gate_result import Status
from trainmark.analyse.gate_throughput import status_of
from trainmark.analyse.verdict import judge

_SPREAD = 0.01
_RUNS = ((3, 3), (5, 3), (5, 5), (10, 5))
"""In the baseline, and now."""
_TOLERANCES = (1, 2, 3, 4)
_LOSSES = (0.0, 1.5, 2.0)


def simulate(runs: tuple[int, int], tolerance: float, loss: float, trials: int) -> Counter[Status]:
    rng = random.Random(0)
    found: Counter[Status] = Counter()
    for _ in range(trials):
        a, b = ([1 + rng.gauss(0, _SPREAD) for _ in range(num)] for num in runs)
        slower = [value * (1 - loss * tolerance) for value in b]
        found[status_of(judge(a, slower, tolerance=tolerance), tolerance)] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    print("| runs: baseline, now | tolerance / spread | no change: pass | alarm | loss 1.5 x tolerance found | 2 x |")
    print("|---|---|---|---|---|---|")
    for runs in _RUNS:
        for factor in _TOLERANCES:
            same, more, twice = (simulate(runs, factor * _SPREAD, loss, trials) for loss in _LOSSES)
            shares = (same[Status.PASS], same[Status.REGRESSION], more[Status.REGRESSION], twice[Status.REGRESSION])
            cells = " | ".join(f"{share / trials:.0%}" for share in shares)
            print(f"| {runs[0]}, {runs[1]} | {factor} | {cells} |")


if __name__ == "__main__":
    main()
