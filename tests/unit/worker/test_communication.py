"""Steps beside their twins on the fake engine: every number exact, and nothing of it counts as a measured step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from making import make_run
from trainmark.analyse.communication import describe_communication, median_interval
from trainmark.messages.scaling import step_captured
from trainmark.store.folder import read_run
from trainmark.worker.communication import measure_communication
from trainmark.worker.fake.engine import FakeClock, FakeEngine


def measure(*, stop_at: float | None = None, max_steps: int | None = None, **engine: Any) -> tuple[Any, FakeEngine]:
    clock = FakeClock()
    fake = FakeEngine(clock=clock, world_size=2, **engine)
    stop = lambda: stop_at is not None and clock.now_s >= stop_at  # noqa: E731
    record = measure_communication(fake, max_seconds=40.0, max_steps=max_steps, should_stop=stop, clock=clock)
    return record, fake


def test_the_twin_is_shorter_by_the_exchange() -> None:
    record, fake = measure(seconds=[0.25], exchange_s=0.05)
    assert len(record["pairs"]) == 12
    assert record["steps_per_block"] == 1
    assert [step_s - twin_s for step_s, twin_s in record["pairs"]] == pytest.approx([0.05] * 12)
    assert record["all_reduce_s"] == [0.05]
    assert fake.num_steps == 2 + 24  # one of each to warm up


def test_short_steps_make_blocks() -> None:
    record, fake = measure(seconds=[0.01], exchange_s=0.002)
    assert record["steps_per_block"] == 12
    assert record["pairs"][0] == pytest.approx((0.01, 0.008))
    assert fake.clock.now_s < 4.0


@pytest.mark.parametrize(("seconds", "num_pairs"), [(0.7, 6), (2.0, 2), (20.0, 1)])
def test_long_steps_have_fewer_pairs_within_a_quarter_of_the_measuring_time(seconds: float, num_pairs: int) -> None:
    record, _ = measure(seconds=[seconds])
    assert len(record["pairs"]) == num_pairs


def test_max_steps_and_a_signal_keep_it_short() -> None:
    assert len(measure(seconds=[0.1], max_steps=4)[0]["pairs"]) == 4
    record, _ = measure(seconds=[0.1], stop_at=0.5, exchange_s=0.01)
    assert len(record["pairs"]) == 2
    assert record["all_reduce_s"] == []


def test_a_rank_with_another_opinion_is_followed() -> None:
    """The others decide: rank 0 that it is over, any rank that it was asked to stop."""

    class Asked(FakeEngine):
        def agree(self, gravity: int, numbers: Any) -> tuple[int, list[int]]:
            return max(gravity, 1), list(numbers)

    fake = Asked([0.1], clock=FakeClock(), world_size=2)
    record = measure_communication(fake, max_seconds=40.0, max_steps=None, should_stop=lambda: False, clock=fake.clock)
    assert len(record["pairs"]) == 1


def test_no_twin_has_its_reason() -> None:
    record, fake = measure(seconds=[0.1], no_twin=step_captured())
    assert record["reason_code"] == "step-captured"
    assert "pairs" not in record
    assert fake.num_steps == 0


def test_the_result_of_a_run(tmp_path: Path) -> None:
    record, _ = measure(seconds=[0.25], exchange_s=0.05)
    row = read_run(make_run(tmp_path, "a", extra=[json.loads(json.dumps(record))]))
    assert row is not None
    assert len(row.seconds) == 50
    found = describe_communication(row)
    assert found is not None
    assert found.pop("ci95") == pytest.approx([0.05, 0.05])
    assert found == pytest.approx(
        {
            "exposed_s": 0.05, "fraction": 0.2, "step_s": 0.25, "compute_s": 0.2, "gradient_bytes": 1_000_000,
            "allreduce_gb_per_s": 0.02, "allreduce_bus_gb_per_s": 0.02,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        {"pairs": [[1, "x"]]}, {"pairs": "no"}, {"pairs": []}, {"pairs": [[0, 1]]}, {"gradient_bytes": -1},
        {"gradient_bytes": None}, {"num_ranks": True}, {"pairs": [[float("nan"), 1.0]]}, {"reason": "a graph"},
    ],
)  # fmt: skip
def test_a_strangers_record_gives_no_number(tmp_path: Path, damage: dict[str, Any]) -> None:
    record, _ = measure(seconds=[0.25], exchange_s=0.05)
    row = read_run(make_run(tmp_path, "a", extra=[{**record, **damage}]))
    assert row is not None
    assert describe_communication(row) is None


def test_the_interval_of_a_median() -> None:
    """Coverage by the binomial: 1 - 2/64 for the extremes of six, 1 - 2 * 79/4096 for the third of twelve."""
    assert median_interval([3, 1, 2, 5, 4]) is None
    assert median_interval([3, 1, 2, 5, 4, 6]) == (1, 6)
    assert median_interval(list(range(12))) == (2, 9)
