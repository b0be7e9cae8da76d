"""How often a verdict of `compare` is wrong, and how often it finds a slow-down: on real repeated runs, and simulated.

The real runs are five of each of 87 submissions to MLPerf Training; every split into two and three is a comparison.

    python benchmarks/verdict_errors.py
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from trainmark.analyse.verdict import Sides, judge, judge_cells

_CORPUS = Path(__file__).parents[1] / "tests" / "data" / "mlperf_run_means.json"
_SPLITS = [(two, tuple({*range(5)} - {*two})) for two in itertools.combinations(range(5), 2)]
_SPREADS = (0.002, 0.005, 0.01, 0.02)
_RUNS = (3, 5)
_DIFFERENT = ("faster", "slower")


def count_corpus(kind: str, *, factor: float, together: bool) -> Counter[str]:
    runs = [item[kind] for item in json.loads(_CORPUS.read_text())["configurations"]]
    found: Counter[str] = Counter()
    for two, three in _SPLITS:
        cells = [
            Sides(a=tuple(values[place] for place in two), b=tuple(factor * values[place] for place in three))
            for values in runs
        ]
        for group in [cells] if together else [[sides] for sides in cells]:
            found.update(item.verdict for item in judge_cells(group))
    return found


def print_corpus() -> None:
    print("| | false verdicts | equal ones called `same` | slow-down of 2% found | ... called `same` |")
    print("|---|---|---|---|---|")
    for kind, together in itertools.product(("mean_of_rates", "throughput"), (False, True)):
        equal, slow = (count_corpus(kind, factor=factor, together=together) for factor in (1.0, 0.98))
        num = equal.total()
        wrong = ", ".join(f"{equal[verdict]} {verdict}" for verdict in _DIFFERENT)
        print(
            f"| {kind}, {'together' if together else 'alone'} | {wrong} | {equal['same'] / num:.1%} "
            f"| {slow['slower'] / num:.1%} | {slow['same']} |"
        )


def draw(rng: random.Random, spread: float, num: int) -> tuple[float, ...]:
    return tuple(math.exp(rng.gauss(0, spread)) for _ in range(num))


def print_one_cell(trials: int) -> None:
    print("| runs on each side | spread between runs | false | `same` | 2% slower found | 5% slower found |")
    print("|---|---|---|---|---|---|")
    for num, spread in itertools.product(_RUNS, _SPREADS):
        rng, found = random.Random(0), Counter[str]()
        for _ in range(trials):
            a, b = draw(rng, spread, num), draw(rng, spread, num)
            equal = judge(a, b).verdict
            found["false"] += equal in _DIFFERENT
            found["same"] += equal == "same"
            for factor in (0.98, 0.95):
                found[str(factor)] += judge(a, [factor * value for value in b]).verdict == "slower"
        shares = " | ".join(f"{found[name] / trials:.1%}" for name in ("false", "same", "0.98", "0.95"))
        print(f"| {num} | {spread:.1%} | {shares} |", flush=True)


def spreads_of_cells(rng: random.Random) -> Iterator[tuple[str, Callable[[int], float]]]:
    yield "all 0.3%", lambda _: 0.003
    yield "all 2%", lambda _: 0.02
    yield "log-normal about 1%, factor 1.6", lambda _: 0.01 * math.exp(rng.gauss(0, 0.5))
    yield "0.4%, a fifth of the cells 2%", lambda place: 0.004 if place % 5 else 0.02


def print_many_cells(trials: int, num_cells: int = 20) -> None:
    print(f"| spread of {num_cells} equal cells | runs | comparisons with any false verdict |")
    print("|---|---|---|")
    rng = random.Random(0)
    for (name, spread_of), runs in itertools.product(spreads_of_cells(rng), ((2, 3), (3, 3))):
        wrong = 0
        for _ in range(trials):
            spreads = [spread_of(place) for place in range(num_cells)]
            cells = [Sides(a=draw(rng, spread, runs[0]), b=draw(rng, spread, runs[1])) for spread in spreads]
            wrong += any(item.verdict in _DIFFERENT for item in judge_cells(cells))
        print(f"| {name} | {runs[0]}, {runs[1]} | {wrong / trials:.1%} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="simulated comparisons of one cell")
    trials = parser.parse_args().trials
    print_corpus()
    print()
    print_one_cell(trials)
    print()
    print_many_cells(max(1, trials // 10))


if __name__ == "__main__":
    main()
