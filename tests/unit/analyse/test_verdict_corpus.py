"""The error rates of verdicts on real repeated runs: five runs of each of 87 submissions to MLPerf Training.

Every split of the five runs into two and three is a comparison of equals; with one side scaled by 0.98, of unequals.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trainmark.analyse.verdict import Sides, judge_cells

CORPUS = json.loads((Path(__file__).parents[2] / "data" / "mlperf_run_means.json").read_text())["configurations"]
SPLITS = [(two, tuple({*range(5)} - {*two})) for two in itertools.combinations(range(5), 2)]


def count(runs: list[list[float]], *, factor: float, together: bool) -> Counter[str]:
    """Verdicts of all configurations and splits; `together`: those of one split as one comparison of many cells."""
    verdicts: Counter[str] = Counter()
    for two, three in SPLITS:
        cells = [
            Sides(a=tuple(values[place] for place in two), b=tuple(factor * values[place] for place in three))
            for values in runs
        ]
        groups = [cells] if together else [[sides] for sides in cells]
        verdicts.update(item.verdict for group in groups for item in judge_cells(group))
    return verdicts


def configurations(part: str) -> list[dict[str, Any]]:
    halves = {"all": CORPUS, "even": CORPUS[::2], "odd": CORPUS[1::2]}
    return halves[part]


@pytest.mark.parametrize("part", ["all", "even", "odd"])
@pytest.mark.parametrize("kind", ["mean_of_rates", "throughput"])
@pytest.mark.parametrize("together", [True, False], ids=["together", "alone"])
def test_equals_are_same_and_never_much_else(*, kind: str, together: bool, part: str) -> None:
    runs = [item[kind] for item in configurations(part)]
    found = count(runs, factor=1.0, together=together)
    num = found.total()
    assert num == 10 * len(runs)
    assert found["faster"] + found["slower"] <= 0.05 * num
    # Within a factor of two of each other, as far as so few can say.
    assert max(found["faster"], found["slower"]) <= 2 * min(found["faster"], found["slower"]) + 2
    assert found["same"] >= 0.70 * num


@pytest.mark.parametrize("factor", [0.98, 1 / 0.98], ids=["slower", "faster"])
@pytest.mark.parametrize("kind", ["mean_of_rates", "throughput"])
@pytest.mark.parametrize("together", [True, False], ids=["together", "alone"])
def test_two_per_cent_are_found_and_never_same(*, kind: str, together: bool, factor: float) -> None:
    runs = [item[kind] for item in CORPUS]
    right, wrong = ("slower", "faster") if factor < 1 else ("faster", "slower")
    found = count(runs, factor=factor, together=together)
    assert found["same"] == 0
    assert found[wrong] == 0
    assert found[right] >= 0.90 * found.total()
