"""Witnesses of one run, over the same time."""

from __future__ import annotations

import numpy as np
import pytest

from trainmark.analyse.agreement import Witness, compare

BEGIN = 1_700_000_000.0


def observer(seconds: list[float], *, samples: float = 8, wall: float = 1.0) -> Witness:
    durations = np.array(seconds)
    counts = {"samples": np.full(len(durations), samples), "iterations": np.ones(len(durations))}
    return Witness(
        name="observer",
        unit="samples",
        seconds=durations,
        counts=counts,
        ends_s=BEGIN + wall * np.cumsum(durations),
        wall_s=wall * durations,
    )


def log(seconds: float, num: int, *, covers: float, unit: str = "samples", count: float = 80) -> Witness:
    """A line every `covers` seconds that says `seconds`."""
    ends = BEGIN + covers * np.arange(1, num + 1)
    return Witness(
        name="log", unit=unit, seconds=np.full(num, seconds), counts={unit: np.full(num, count)}, ends_s=ends
    )


def test_witnesses_that_agree() -> None:
    values, warning = compare({"observer": observer([0.1] * 200), "log": log(1.0, 20, covers=1.0)}, "observer")
    assert values == {
        "observer": pytest.approx(80), "log": pytest.approx(80), "clock": pytest.approx(80), "unit": "samples"
    }  # fmt: skip
    assert warning is None


@pytest.mark.parametrize("wrong", [0.97, 1.03, 1000.0])
def test_a_log_that_is_wrong_is_a_warning_with_all_values(wrong: float) -> None:
    """Its times are not those of the clock; a factor of 1000 is milliseconds read as seconds."""
    values, warning = compare({"observer": observer([0.1] * 200), "log": log(wrong, 20, covers=1.0)}, "observer")
    assert warning is not None
    assert values["log"] == warning.params["log"]
    assert (warning.params["observer"], warning.params["clock"]) == (pytest.approx(80), pytest.approx(80))
    assert warning.params["log"] == pytest.approx(80 / wrong)
    assert f"log {80 / wrong:.6g}" in str(warning)


def test_a_device_that_tells_another_time_than_the_clock() -> None:
    _, warning = compare({"observer": observer([0.1] * 200, wall=1.05)}, "observer")
    assert warning is not None
    assert warning.params["clock"] == pytest.approx(80 / 1.05)


def test_a_log_alone_is_judged_by_the_clock_even_with_pauses_between_its_lines() -> None:
    """Its lines are milliseconds that were read as seconds."""
    told = log(1000.0, 20, covers=1.0)
    ends = told.ends_s + np.where(np.arange(20) >= 10, 60.0, 0.0)
    paused = Witness(name="log", unit="samples", seconds=told.seconds, counts=told.counts, ends_s=ends)
    values, warning = compare({"log": paused}, "log")
    assert warning is not None
    assert values["clock"] == pytest.approx(1000 * float(str(values["log"])))


def test_only_the_steady_state_is_compared() -> None:
    """The first line of the log includes the warm-up; so do the first steps."""
    seconds = [1.0] * 5 + [0.1] * 200
    slow = log(1.0, 20, covers=1.0)
    ends = slow.ends_s + 5.0
    told = Witness(
        name="log",
        unit="samples",
        seconds=np.concatenate(([5.0], slow.seconds)),
        counts={"samples": np.concatenate(([40.0], slow.counts["samples"]))},
        ends_s=np.concatenate(([BEGIN + 5.0], ends)),
    )
    values, warning = compare({"observer": observer(seconds), "log": told}, "observer")
    assert values["log"] == pytest.approx(80)
    assert warning is None


def test_witnesses_of_different_units_are_compared_in_iterations() -> None:
    told = log(1.0, 20, covers=1.0, unit="iterations", count=10)
    values, warning = compare({"observer": observer([0.1] * 200), "log": told}, "observer")
    assert values == {
        "observer": pytest.approx(10), "log": pytest.approx(10), "clock": pytest.approx(10), "unit": "iterations"
    }  # fmt: skip
    assert warning is None


def test_too_few_records_say_nothing() -> None:
    assert compare({"observer": observer([0.1])}, "observer") == ({}, None)
