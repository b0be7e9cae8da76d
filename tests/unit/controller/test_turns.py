"""Rates measured in turns: what is said about them."""

from __future__ import annotations

import math

import pytest

from making import make_cell
from trainmark.controller.turns import Prepared, Variant, measure_in_turns, ratio, summarise
from trainmark.errors import RunError


class Counted(Prepared):
    """Without a process; its rates come from a list."""

    def __init__(self, name: str, rates: list[float], order: list[str]) -> None:
        self.variant, self.rates, self._coming, self._order = Variant(name=name, cell=make_cell()), [], rates, order

    def measure(self, seconds: float) -> float:
        self._order.append(self.variant.name)
        self.rates.append(self._coming.pop(0))
        return self.rates[-1]


def test_a_drift_of_the_machine_is_not_in_the_ratio() -> None:
    order: list[str] = []
    slow, quick = Counted("a", [10.0, 20.0, 40.0], order), Counted("b", [20.0, 40.0, 80.0], order)
    measure_in_turns([slow, quick], rounds=3, seconds=1.0)
    assert order == ["a", "b", "b", "a", "a", "b"]
    found = ratio(quick, slow)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    interval = summarise(slow.rates).interval
    assert interval is not None
    assert interval[0] < 10 < interval[1]


def test_the_interval_is_students_on_logarithms() -> None:
    found = summarise([1.0, math.e**2])
    assert found.value == pytest.approx(math.e)
    assert found.high is not None
    assert math.log(found.high) - 1 == pytest.approx(12.706, rel=1e-3)


def test_one_round_has_no_interval() -> None:
    found = summarise([3.0])
    assert (found.value, found.low, found.high) == (pytest.approx(3.0), None, None)
    assert found.to_text() == "3 (one round)"


def test_a_process_that_fails_says_why() -> None:
    cell = make_cell(workload="nosuch")
    with pytest.raises(RunError, match="nosuch"):
        Prepared(Variant(name="one", cell=cell)).wait_for_first_step()


def test_a_process_that_takes_too_long_is_killed() -> None:
    waiting = Variant(name="one", cell=make_cell(), program=("-c", "import time; time.sleep(60)"))
    with pytest.raises(RunError, match="one: no first step within 0 s"):
        Prepared(waiting).wait_for_first_step(limit_s=0.1)


def test_a_process_that_has_ended_says_so_to_every_question() -> None:
    """As often as it is asked, and also if it was killed while it wrote."""
    ends = "print('{}', flush=True); input(); print('{\"blo', end='', flush=True); import os; os.write(2, b'no memory')"
    one = Prepared(Variant(name="one", cell=make_cell(), program=("-c", ends))).wait_for_first_step()
    for _ in range(2):
        with pytest.raises(RunError, match="one: the process ended: no memory"):
            one.measure(1.0)
    one.end()
    one.kill()
