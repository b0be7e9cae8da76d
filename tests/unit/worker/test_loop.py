"""The measured loop on the fake engine: every number exact."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from making import make_run
from trainmark.messages.endings import controller_stopped, interrupted
from trainmark.messages.message import Message
from trainmark.messages.training import bad_sample, steps_done
from trainmark.runfolder.files import Json
from trainmark.runfolder.records import Outcome, read_records
from trainmark.store.folder import read_run
from trainmark.store.rank_records import read_rank
from trainmark.worker import sanity
from trainmark.worker.fake.engine import FakeClock, FakeEngine
from trainmark.worker.loop import Limits, LoopEnd, MeasuredLoop, ResumePoint
from trainmark.worker.recorder import Recorder


def run_loop(path: Path, limits: Limits, *, stop_at: float | None = None, **engine: Any) -> tuple[LoopEnd, list[Json]]:
    clock = FakeClock()
    fake = FakeEngine(clock=clock, **engine)
    recorder = Recorder(path)
    asked = (Outcome.OK, controller_stopped())
    reason = lambda: asked if stop_at is not None and clock.now_s >= stop_at else None  # noqa: E731
    end = MeasuredLoop(engine=fake, recorder=recorder, limits=limits, should_stop=reason, clock=clock).run()
    recorder.close()
    return end, list(read_records(path))


def steps(found: list[Json]) -> list[Json]:
    return [record for record in found if record["kind"] == "step"]


@pytest.mark.parametrize("lag", [0, 1, 7])
def test_exact_steps_and_throughput(tmp_path: Path, lag: int) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=1e9, max_steps=100), seconds=[60.0] + [0.5] * 99, lag=lag)
    done = steps(found)
    assert end == LoopEnd(outcome=Outcome.OK, reason=steps_done(steps=100, epochs=None), num_steps=100)
    assert [record["step"] for record in done] == list(range(1, 101))
    assert [record["seconds"] for record in done] == pytest.approx([60.0] + [0.5] * 99)
    steady = done[1:]
    assert sum(r["samples"] for r in steady) / sum(r["seconds"] for r in steady) == pytest.approx(64.0)
    assert done[-1]["time_s"] == pytest.approx(109.5)


def test_the_time_budget_ends_the_run(tmp_path: Path) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=10), seconds=[0.01])
    assert end.outcome is Outcome.OK
    assert "10 s limit" in end.reason.english
    assert 10 <= steps(found)[-1]["time_s"] < 10.5


def test_the_controller_can_stop_it(tmp_path: Path) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=1e9), seconds=[0.01], stop_at=3.0)
    assert end.reason == controller_stopped()
    assert 3.0 <= steps(found)[-1]["time_s"] < 3.5


def test_evaluation_is_not_step_time(tmp_path: Path) -> None:
    end, found = run_loop(
        tmp_path / "r",
        Limits(max_seconds=1, epochs=3),
        seconds=[0.1],
        steps_per_epoch=10,
        metrics=[{"top1": 0.5}],
        eval_seconds=99.0,
    )
    assert end.num_steps == 30
    assert [record["seconds"] for record in steps(found)] == pytest.approx([0.1] * 30)
    evals = [(r["step"], r["epoch"], r["metric"], r["value"]) for r in found if r["kind"] == "eval"]
    assert evals == [(10, 1, "top1", 0.5), (20, 2, "top1", 0.5), (30, 3, "top1", 0.5)]
    assert [r["seconds"] for r in found if r["kind"] == "phase" and r["edge"] == "end"] == [99.0] * 3


@pytest.mark.parametrize("lag", [0, 3])
def test_compiling_before_a_step_is_a_pause_and_no_slow_step(tmp_path: Path, lag: int) -> None:
    """As a batch of new shapes brings it. The measuring time is not shorter for it, and no step is missing."""
    _, found = run_loop(
        tmp_path / "r", Limits(max_seconds=10), seconds=[0.01], lag=lag, compiling_s={1: 40.0, 300: 50.0}
    )
    done = steps(found)
    assert [record["seconds"] for record in done] == pytest.approx([0.01] * len(done))
    assert 10 <= done[-1]["time_s"] < 10.5
    phases = [r for r in found if r["kind"] == "phase"]
    assert [(r["phase"], r["edge"], r["step"]) for r in phases] == [
        ("compile", edge, step) for step in (1, 300) for edge in ("begin", "end")
    ]
    assert [r["seconds"] for r in phases if "seconds" in r] == pytest.approx([40.0, 50.0])
    assert read_rank(tmp_path / "r").pauses == {"compile": pytest.approx(90.0)}
    order = [r["step"] for r in found if r["kind"] in ("step", "phase")]
    assert order == sorted(order), "the steps before a pause are recorded before it"


def test_nobody_is_alarmed_while_a_step_is_compiled(tmp_path: Path) -> None:
    clock = FakeClock()
    expected: list[tuple[str, float]] = []

    class Alarm:
        def expect_step(self, _: Sequence[float]) -> None:
            expected.append(("step", clock.now_s))

        def expect_pause(self) -> None:
            expected.append(("pause", clock.now_s))

    alarm: Any = Alarm()
    recorder = Recorder(tmp_path / "r")
    engine = FakeEngine([1.0], clock=clock, compiling_s={7: 100.0})
    limits = Limits(max_seconds=1e9, max_steps=10)
    MeasuredLoop(
        engine=engine, recorder=recorder, limits=limits, should_stop=lambda: None, alarm=alarm, clock=clock
    ).run()
    recorder.close()
    at = expected.index(("pause", 7.0))
    assert expected[at + 1] == ("step", 107.0)


def test_a_long_evaluation_gives_signs_of_life(tmp_path: Path) -> None:
    """An hour in batches of 4 s: never more than 12 s without a record and a new alarm, and one pause all the same."""

    class Alarm:
        pauses: ClassVar[list[float]] = []

        def expect_pause(self) -> None:
            self.pauses.append(clock.now_s)

        def expect_step(self, _: Any) -> None:
            pass

    clock = FakeClock()
    alarm: Any = Alarm()
    recorder = Recorder(tmp_path / "rank0.jsonl")
    engine = FakeEngine(
        [0.1], clock=clock, steps_per_epoch=10, metrics=[{"top1": 0.5}], eval_seconds=3600.0, eval_batches=900
    )
    limits = Limits(max_seconds=1, epochs=1)
    MeasuredLoop(
        engine=engine, recorder=recorder, limits=limits, should_stop=lambda: None, alarm=alarm, clock=clock
    ).run()
    recorder.close()
    phases = [r for r in read_records(tmp_path / "rank0.jsonl") if r["kind"] == "phase"]
    assert [r["edge"] for r in phases] == ["begin"] + ["progress"] * 300 + ["end"]
    assert {r["phase"] for r in phases} == {"eval"}
    assert [r["seconds"] for r in phases if "seconds" in r] == pytest.approx([3600.0])
    gaps = [b - a for a, b in itertools.pairwise(alarm.pauses)]
    assert max(gaps) == pytest.approx(12.0)


def test_signs_of_life_are_no_pauses_of_their_own(tmp_path: Path) -> None:
    phase = {"kind": "phase", "phase": "eval", "step": 50}
    edges = [{"edge": "begin"}, {"edge": "progress"}, {"edge": "progress"}, {"edge": "end", "seconds": 25.0}]
    folder = make_run(tmp_path, "r", extra=[{**phase, **edge} for edge in edges])
    assert read_run(folder).pauses == {"eval": 25.0}


def test_a_short_evaluation_gives_none(tmp_path: Path) -> None:
    _, found = train(tmp_path / "r", eval_seconds=9.0, eval_batches=90)
    assert {r["edge"] for r in found if r["kind"] == "phase"} == {"begin", "end"}


def test_epochs_need_data_that_has_them(tmp_path: Path) -> None:
    end, _ = run_loop(tmp_path / "r", Limits(max_seconds=1, epochs=3), seconds=[0.1])
    assert end.outcome is Outcome.FAILED


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path, bad: float) -> None:
    end, found = run_loop(tmp_path / "r", Limits(max_seconds=1e9), seconds=[0.01], losses=[1.0] * 40 + [bad])
    assert end.outcome is Outcome.NAN
    assert end.reason.english.startswith(f"the loss was {bad} at step ")
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
        def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
            import time

            time.sleep(0.01)  # real time for the writer's thread
            return super().agree(gravity, numbers)

    loop = MeasuredLoop(
        engine=SlowEngine([0.01], clock=clock), recorder=recorder, limits=limits, should_stop=lambda: None, clock=clock
    )
    end = loop.run()
    recorder.close()
    assert end.outcome is Outcome.FAILED
    assert "No space left" in end.reason.english


def test_the_recorder_keeps_order_and_everything(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    for number in range(5000):
        recorder.write({"kind": "step", "step": number})
    recorder.close()
    assert [r["step"] for r in read_records(tmp_path / "r")] == list(range(5000))


def test_the_gravest_rank_decides_for_all(tmp_path: Path) -> None:
    """Another rank met a NaN: this one ends as `nan` too, not as a success, also when that is known only at the end."""

    class OtherRankIsNan(FakeEngine):
        def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
            return (4 if self.num_steps >= 10 else gravity), list(numbers)

    clock = FakeClock()
    recorder = Recorder(tmp_path / "r")
    limits = Limits(max_seconds=1e9, max_steps=10)
    fake = OtherRankIsNan([0.01], clock=clock)
    end = MeasuredLoop(engine=fake, recorder=recorder, limits=limits, should_stop=lambda: None, clock=clock).run()
    recorder.close()
    assert end.outcome is Outcome.NAN
    assert "another rank" in end.reason.english


def test_a_name_that_is_no_text_does_not_end_the_recorder(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.write({"kind": "warning", "message": "bad \udcff.jpg"})
    recorder.write({"kind": "step", "step": 1, "odd": object()})
    recorder.write({"kind": "step", "step": 2})
    recorder.close()
    assert [record["kind"] for record in read_records(tmp_path / "r")][:1] == ["warning"]
    assert recorder.failure is not None


# -- training to a target ----------------------------------------------------------------------------------------------

RISING = [{"top1": value} for value in (0.2, 0.5, 0.8, 0.9)]


def train(path: Path, **changes: Any) -> tuple[LoopEnd, list[Json]]:
    limits = {"max_seconds": 1, "epochs": 4, **{key: changes.pop(key) for key in list(changes) if key in LIMITS}}
    engine = {"seconds": [0.1], "steps_per_epoch": 10, "metrics": RISING, "eval_seconds": 2.0, **changes}
    return run_loop(path, Limits(**limits), **engine)


LIMITS = tuple(Limits.__dataclass_fields__)


def test_the_first_evaluation_at_the_target_ends_the_training(tmp_path: Path) -> None:
    end, found = train(tmp_path / "r", targets={"top1": 0.8})
    assert (end.outcome, end.num_steps) == (Outcome.OK, 30)
    assert end.reason.english == "target reached after 30 steps, 3 epochs: top1 0.8"
    times = [r["time_s"] for r in found if r["kind"] == "eval"]
    assert times == pytest.approx([3.0, 6.0, 9.0])  # steps and evaluations: what a person waits


def test_all_targets_must_be_reached(tmp_path: Path) -> None:
    metrics = [{"box": 0.9, "mask": 0.1}, {"box": 0.1, "mask": 0.9}, {"box": 0.6, "mask": 0.6}]
    end, _ = train(tmp_path / "r", targets={"box": 0.5, "mask": 0.5}, metrics=metrics)
    assert end.num_steps == 30


def test_a_target_that_is_not_reached_is_said(tmp_path: Path) -> None:
    end, found = train(tmp_path / "r", targets={"top1": 0.95})
    assert (end.outcome, end.num_steps) == (Outcome.OK, 40)
    assert "not reached" in end.reason.english
    assert [r["code"] for r in found if r["kind"] == "warning"] == ["target-not-reached"]


def test_evaluations_come_at_their_interval_and_at_the_end(tmp_path: Path) -> None:
    _, found = train(tmp_path / "r", epochs=7, eval_every=3)
    assert [r["epoch"] for r in found if r["kind"] == "eval"] == [3, 6, 7]


@pytest.mark.parametrize("value", [float("nan"), -0.1, 1.5])
def test_a_metric_that_cannot_be_fails_the_run(tmp_path: Path, value: float) -> None:
    end, _ = train(tmp_path / "r", metrics=[{"top1": value}])
    assert end.outcome is Outcome.FAILED
    assert "not between 0 and 1" in end.reason.english


@pytest.mark.parametrize(
    ("losses", "outcome"),
    [
        ([1.0 + step / 100 for step in range(40)], Outcome.FAILED),
        ([2.0 - step / 100 for step in range(40)], Outcome.OK),
    ],
)
def test_a_loss_that_does_not_fall_fails_a_training(tmp_path: Path, losses: list[float], outcome: Outcome) -> None:
    assert train(tmp_path / "r", losses=losses)[0].outcome is outcome


@pytest.mark.parametrize(("others_fall", "outcome"), [(0.2, Outcome.OK), (0.05, Outcome.FAILED)])
def test_the_losses_of_all_ranks_are_judged_as_one(tmp_path: Path, others_fall: float, outcome: Outcome) -> None:
    """This rank's loss rises by about 0.1, the other's falls by more or less: both ranks have the same verdict."""

    class Rank(FakeEngine):
        def gather(self, part: Any) -> list[Any]:
            return [part, {**part, "begin": 2.0, "end": 2.0 - others_fall}]

    recorder = Recorder(tmp_path / "r")
    clock = FakeClock()
    fake = Rank([0.1], clock=clock, steps_per_epoch=40, losses=[1.0 + step / 300 for step in range(40)])
    limits = Limits(max_seconds=1, epochs=1)
    end = MeasuredLoop(engine=fake, recorder=recorder, limits=limits, should_stop=lambda: None, clock=clock).run()
    recorder.close()
    assert end.outcome is outcome


@pytest.mark.parametrize(
    ("losses", "text"),
    [([3.0], "to the last digit"), ([1 + step / 1000 for step in range(10**4)], "the loss rose"), ([], None)],
)
def test_a_measurement_of_speed_is_judged_too(tmp_path: Path, losses: list[float], text: str | None) -> None:
    end, _ = run_loop(tmp_path / "r", Limits(max_seconds=30), seconds=[0.01], losses=losses)
    assert end.outcome is (Outcome.OK if text is None else Outcome.FAILED)
    assert text is None or text in end.reason.english


def test_weights_that_did_not_change_fail_the_run(tmp_path: Path) -> None:
    end, _ = run_loop(tmp_path / "r", Limits(max_seconds=1), seconds=[0.01], learns=False)
    assert end.outcome is Outcome.FAILED
    assert "no weight changed" in end.reason.english


def test_checkpoints_are_pauses_and_a_training_goes_on_from_one(tmp_path: Path) -> None:
    """Cut short at 2.5 epochs, resumed: the same steps, the same evaluations, no evaluation twice."""
    clock = FakeClock()
    saved: list[ResumePoint] = []

    def loop(start: ResumePoint, recorder: Recorder, stop_at: int | None) -> LoopEnd:
        fake = FakeEngine([0.1], clock=clock, steps_per_epoch=10, metrics=RISING, eval_seconds=2.0)
        fake.num_steps = start.num_steps

        def stop() -> tuple[Outcome, Message] | None:
            is_due = stop_at is not None and fake.num_steps >= stop_at
            return (Outcome.KILLED, interrupted(signal="SIGTERM")) if is_due else None

        return MeasuredLoop(
            engine=fake, recorder=recorder, limits=Limits(max_seconds=1, epochs=4, checkpoint_s=0.7), should_stop=stop,
            save=lambda progress: saved.append(ResumePoint(**vars(progress))), start=start, clock=clock,
        ).run()  # fmt: skip

    first = Recorder(tmp_path / "first")
    assert loop(ResumePoint(), first, 25).outcome is Outcome.KILLED
    first.close()
    at = saved[-1]
    assert at.num_steps >= 25
    assert at.wall_s == pytest.approx(at.device_s + 2 * 2.0)
    second = Recorder(tmp_path / "second")
    assert loop(at, second, None).num_steps == 40
    second.close()
    before, after = (list(read_records(tmp_path / name)) for name in ("first", "second"))
    assert [r["step"] for r in steps(before) + steps(after)] == list(range(1, 41))
    assert [r["epoch"] for r in before + after if r["kind"] == "eval"] == [1, 2, 3, 4]
    assert steps(after)[-1]["time_s"] == pytest.approx(4.0)
    assert {r["phase"] for r in before if r["kind"] == "phase"} == {"eval", "checkpoint"}


def test_no_checkpoint_is_written_after_a_loss_that_is_no_number(tmp_path: Path) -> None:
    """The device lags: the bad loss is found only while the checkpoint that is due waits for it."""
    clock = FakeClock()
    recorder = Recorder(tmp_path / "r")
    fake = FakeEngine([0.1], clock=clock, steps_per_epoch=100, lag=5, losses=[1.0] * 9 + [float("nan")])
    saved: list[int] = []
    end = MeasuredLoop(
        engine=fake, recorder=recorder, limits=Limits(max_seconds=1, epochs=1, checkpoint_s=1.0),
        should_stop=lambda: None, save=lambda progress: saved.append(progress.num_steps), clock=clock,
    ).run()  # fmt: skip
    recorder.close()
    assert end.outcome is Outcome.NAN
    assert saved == []


class Complaining(FakeEngine):
    def evaluate(self, on_batch: Callable[[], None]) -> Any:
        self.complaints = [bad_sample(path=f"val/{self.num_evaluations}.jpg", problem="cut short")]
        return super().evaluate(on_batch)

    def warnings(self) -> list[Message]:
        new, self.complaints = getattr(self, "complaints", []), []
        return new


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [((), ["val/0.jpg: cut short", "val/1.jpg: cut short"]), (("val/0.jpg: cut short",), ["val/1.jpg: cut short"])],
)
def test_a_warning_of_the_last_evaluation_is_kept_and_said_once(
    tmp_path: Path, earlier: tuple[str, ...], expected: list[str]
) -> None:
    clock = FakeClock()
    recorder = Recorder(tmp_path / "r")
    MeasuredLoop(
        engine=Complaining([0.1], clock=clock, steps_per_epoch=10, metrics=RISING), recorder=recorder,
        limits=Limits(max_seconds=1, epochs=2), should_stop=lambda: None, clock=clock,
        earlier_warnings=frozenset(Message(code="bad-sample", recorded=text) for text in earlier),
    ).run()  # fmt: skip
    recorder.close()
    assert [r["message"] for r in read_records(tmp_path / "r") if r["kind"] == "warning"] == expected


def test_the_advice_on_a_bad_loss_names_a_rate() -> None:
    advise = sanity.advise_on_bad_loss
    assert advise(rate=0.1, peak=0.1, recipe_peak=0.1, is_fp16=False).english == (
        "the learning rate was 0.1: try --lr 0.01 (a tenth)"
    )
    too_high = advise(rate=0.5, peak=5.0, recipe_peak=0.1, is_fp16=True)
    assert too_high.english == "the learning rate was 0.5 (rising to 5): try --lr 0.1 (the recipe's own)"
    assert advise(rate=0.1, peak=0.1, recipe_peak=0.1, is_fp16=True).english.startswith(
        "fp16 cannot hold numbers above 65504"
    )
