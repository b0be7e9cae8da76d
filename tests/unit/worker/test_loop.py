"""The measured loop on the fake engine: every number exact."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from trainmark import records
from trainmark.records import Outcome
from trainmark.worker.engine_fake import FakeClock, FakeEngine
from trainmark.worker.loop import Limits, LoopEnd, MeasuredLoop
from trainmark.worker.recorder import Recorder


def run_loop(
    path: Path, limits: Limits, *, stop_at: float | None = None, **engine: Any
) -> tuple[LoopEnd, list[records.Json]]:
    clock = FakeClock()
    fake = FakeEngine(clock=clock, **engine)
    recorder = Recorder(path)
    asked = (Outcome.OK, "the controller asked")
    reason = lambda: asked if stop_at is not None and clock.now_s >= stop_at else None  # noqa: E731
    end = MeasuredLoop(engine=fake, recorder=recorder, limits=limits, should_stop=reason, clock=clock).run()
    recorder.close()
    return end, list(records.read_records(path))


def steps(found: list[records.Json]) -> list[records.Json]:
    return [record for record in found if record["kind"] == "step"]


@pytest.mark.parametrize("lag", [0, 1, 7])
def test_exact_steps_and_throughput(tmp_path: Path, lag: int) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=1e9, max_steps=100), seconds=[60.0] + [0.5] * 99, lag=lag)
    done = steps(found)
    assert end == LoopEnd(outcome=Outcome.OK, reason="100 steps done", num_steps=100)
    assert [record["step"] for record in done] == list(range(1, 101))
    assert [record["seconds"] for record in done] == pytest.approx([60.0] + [0.5] * 99)
    steady = done[1:]
    assert sum(r["samples"] for r in steady) / sum(r["seconds"] for r in steady) == pytest.approx(64.0)
    assert done[-1]["time_s"] == pytest.approx(109.5)


def test_the_time_budget_ends_the_run(tmp_path: Path) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=10), seconds=[0.01])
    assert end.outcome is Outcome.OK
    assert "10 s is over" in end.reason
    assert 10 <= steps(found)[-1]["time_s"] < 10.5


def test_the_controller_can_stop_it(tmp_path: Path) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=1e9), seconds=[0.01], stop_at=3.0)
    assert end.reason == "the controller asked"
    assert 3.0 <= steps(found)[-1]["time_s"] < 3.5


def test_evaluation_is_not_step_time(tmp_path: Path) -> None:
    end, found = run_loop(
        tmp_path / "r",
        Limits(max_seconds=1, epochs=3),
        seconds=[0.1],
        steps_per_epoch=10,
        metrics={"top1": 0.5},
        eval_seconds=99.0,
    )
    assert end.num_steps == 30
    assert [record["seconds"] for record in steps(found)] == pytest.approx([0.1] * 30)
    evals = [(r["step"], r["epoch"], r["metric"], r["value"]) for r in found if r["kind"] == "eval"]
    assert evals == [(10, 1, "top1", 0.5), (20, 2, "top1", 0.5), (30, 3, "top1", 0.5)]
    assert [r["seconds"] for r in found if r["kind"] == "phase" and r["edge"] == "end"] == [99.0] * 3


def test_epochs_need_data_that_has_them(tmp_path: Path) -> None:
    end, _ = run_loop(tmp_path / "r", Limits(max_seconds=1, epochs=3), seconds=[0.1])
    assert end.outcome is Outcome.FAILED


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path, bad: float) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=1e9), seconds=[0.01], losses=[1.0] * 40 + [bad])
    assert end.outcome is Outcome.NAN
    assert "lower learning rate" in end.reason
    assert all(record.get("loss") in (1.0, None) for record in steps(found))


def test_blocks_grow_to_a_quarter_of_a_second(tmp_path: Path) -> None:
    _, found = run_loop(tmp_path / "r", Limits(max_seconds=30), seconds=[5.0] + [0.001] * 10**6)
    with_loss = [record["step"] for record in steps(found) if "loss" in record]
    gaps = [b - a for a, b in itertools.pairwise(with_loss)]
    assert gaps[:6] == [1, 2, 4, 8, 16, 32]
    assert 240 <= gaps[-2] <= 260


def test_a_full_disk_ends_the_run_with_the_reason() -> None:
    clock = FakeClock()
    recorder = Recorder(Path("/dev/full"))
    limits = Limits(max_seconds=1e9)

    class SlowEngine(FakeEngine):
        def agree(self, gravity: int, block: int) -> tuple[int, int]:
            import time

            time.sleep(0.01)  # real time for the writer's thread
            return super().agree(gravity, block)

    loop = MeasuredLoop(
        engine=SlowEngine([0.01], clock=clock), recorder=recorder, limits=limits, should_stop=lambda: None, clock=clock
    )
    end = loop.run()
    recorder.close()
    assert end.outcome is Outcome.FAILED
    assert "No space left" in end.reason


def test_the_recorder_keeps_order_and_everything(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    for number in range(5000):
        recorder.write({"kind": "step", "step": number})
    recorder.close()
    assert [r["step"] for r in records.read_records(tmp_path / "r")] == list(range(5000))


def test_the_gravest_rank_decides_for_all(tmp_path: Path) -> None:
    """Another rank met a NaN: this one ends as `nan` too, not as a success, also when that is known only at the end."""

    class OtherRankIsNan(FakeEngine):
        def agree(self, gravity: int, block: int) -> tuple[int, int]:
            return (4 if self.num_steps >= 10 else gravity), block

    clock = FakeClock()
    recorder = Recorder(tmp_path / "r")
    limits = Limits(max_seconds=1e9, max_steps=10)
    fake = OtherRankIsNan([0.01], clock=clock)
    end = MeasuredLoop(engine=fake, recorder=recorder, limits=limits, should_stop=lambda: None, clock=clock).run()
    recorder.close()
    assert end.outcome is Outcome.NAN
    assert "another rank" in end.reason


def test_a_name_that_is_no_text_does_not_end_the_recorder(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.write({"kind": "warning", "message": "bad \udcff.jpg"})
    recorder.write({"kind": "step", "step": 1, "odd": object()})
    recorder.write({"kind": "step", "step": 2})
    recorder.close()
    assert [record["kind"] for record in records.read_records(tmp_path / "r")][:1] == ["warning"]
    assert recorder.failure is not None
