"""The sentence with which a run ends says whether its result is as good as was asked for."""

from __future__ import annotations

import random
from pathlib import Path

from making import make_run
from trainmark.controller.end_of_run import describe_end
from trainmark.messages.training import time_limit
from trainmark.store.folder import read_run
from trainmark.store.rows import RunRow

LIMIT = time_limit(seconds=30)


def row(tmp_path: Path, seconds: list[float]) -> RunRow:
    found = read_run(make_run(tmp_path, "r", seconds=seconds))
    assert found is not None
    return found


def test_a_target_that_was_not_reached(tmp_path: Path) -> None:
    noise = random.Random(1)
    uneven = row(tmp_path, [0.1 * (1 + 0.1 * noise.gauss(0, 1)) for _ in range(60)])
    end = describe_end(LIMIT, uneven, 0.01)
    assert end.english.startswith("stopped at the 30 s limit (target ±1% not reached: ±")
    assert end.chinese.startswith("已到 30 s 的时间上限（未达到目标 ±1%：±")


def test_a_target_that_was_reached_or_not_asked_for(tmp_path: Path) -> None:
    even = row(tmp_path, [0.1] * 40)
    assert describe_end(LIMIT, even, 0.01) == LIMIT
    assert describe_end(LIMIT, even, None) == LIMIT


def test_a_result_that_is_too_noisy(tmp_path: Path) -> None:
    noisy = row(tmp_path, [0.959, 1.294, 2.549, 2.139, 5.547, 3.002, 1.436, 0.803, 0.251, 0.176])
    assert describe_end(LIMIT, noisy, 0.01).english == "stopped at the 30 s limit; too noisy to be a result"


def test_a_run_without_a_result(tmp_path: Path) -> None:
    assert describe_end(LIMIT, row(tmp_path, []), 0.01) == LIMIT
