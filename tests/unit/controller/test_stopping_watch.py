"""The watch stops a measurement once it is precise enough, and reports what it sees to a listener."""

from __future__ import annotations

import random
from typing import Any

from listening import KeepingListener
from trainmark.cli.progress import describe_status
from trainmark.controller.listener import Evaluation, RunPhase, RunStatus
from trainmark.controller.stopping_watch import StoppingWatch
from trainmark.spec.suite import Measure


def steps(num: int, *, seconds: float = 0.1) -> list[dict[str, Any]]:
    """With half a percent of noise."""
    chance = random.Random(num)
    return [{"kind": "step", "seconds": seconds * chance.gauss(1, 0.005), "samples": 8} for _ in range(num)]


def watch(listener: KeepingListener, *, may_stop: bool = True, min_seconds: float = 1.0) -> StoppingWatch:
    measure = Measure(min_seconds=min_seconds, max_seconds=20.0)
    return StoppingWatch(measure, listener, unit=lambda: "images", may_stop=may_stop)


def test_it_stops_when_the_interval_is_narrow_enough() -> None:
    listener = KeepingListener()
    observe = watch(listener)
    assert observe(steps(5)) is None
    reason = observe(steps(100))
    assert reason is not None
    assert "±1.00%" in reason.english
    assert observe(steps(1)) is reason, "once decided, it stays decided"
    last = listener.statuses[-1]
    assert (last.num_steps, last.unit) == (106, "images")
    assert last.estimate is not None
    assert 79 < last.estimate.value < 81


def test_it_does_not_stop_in_the_first_half_of_the_time() -> None:
    """Unless it has seen thousands of steps: what is rare comes late."""
    observe = watch(KeepingListener())
    assert observe(steps(80)) is None
    assert observe(steps(80)) is not None
    assert watch(KeepingListener())(steps(3001, seconds=0.002)) is not None


def test_it_does_not_stop_before_the_minimum_time() -> None:
    observe = watch(KeepingListener(), min_seconds=1000.0)
    assert observe(steps(500)) is None


def test_a_training_or_a_command_is_only_observed() -> None:
    listener = KeepingListener()
    assert watch(listener, may_stop=False)(steps(500)) is None
    assert listener.statuses[-1].estimate is not None


def test_the_first_metric_is_the_main_one() -> None:
    listener = KeepingListener()
    observe = watch(listener)
    observe([{"kind": "eval", "metric": "top1", "value": 0.5, "epoch": 1}])
    observe([{"kind": "eval", "metric": "top5", "value": 0.9, "epoch": 1}])
    assert listener.statuses[-1].evaluation == Evaluation(metric="top1", value=0.5, epoch=1)
    observe([{"kind": "eval", "metric": "top1", "value": 0.6, "epoch": 2}])
    assert listener.statuses[-1].evaluation == Evaluation(metric="top1", value=0.6, epoch=2)


def test_a_status_in_words() -> None:
    assert describe_status(None) == "starting"
    building = RunStatus(phase=RunPhase.BUILDING, num_steps=0, unit="images")
    assert describe_status(building) == "building"
    importing = RunStatus(phase=RunPhase.IMPORTING, what="torch", num_steps=0, unit="images")
    assert describe_status(importing) == "importing torch"
    evaluation = Evaluation(metric="top1", value=0.5, epoch=2)
    status = RunStatus(phase=RunPhase.TRAINING, num_steps=1, unit="images", evaluation=evaluation)
    assert describe_status(status) == "training, 1 step, top1 0.500 after epoch 2"


def test_phases_follow_the_records() -> None:
    listener = KeepingListener()
    observe = watch(listener)
    begun = [{"kind": "phase", "phase": name, "edge": "begin"} for name in ("load", "build", "first_step")]
    for record in ({"kind": "run_start"}, *begun, *steps(2), {"kind": "phase", "phase": "eval", "edge": "begin"}):
        observe([record])
    observe([{"kind": "phase", "phase": "eval", "edge": "end"}])
    observe(steps(60))
    assert [status.phase for status in listener.statuses] == [
        "starting", "importing", "building", "first step", "warming up", "warming up", "evaluating", "warming up",
        "measuring",
    ]  # fmt: skip
    for edge, phase in (("begin", "measuring communication"), ("end", "ending")):
        observe([{"kind": "phase", "phase": "communication", "edge": edge}])
        assert listener.statuses[-1].phase == phase
    command = StoppingWatch(Measure(), listener, unit=lambda: "samples", may_stop=False, has_phases=False)
    command([{"kind": "run_start"}])
    assert listener.statuses[-1].phase == "running"
    command(steps(1))
    assert listener.statuses[-1].phase == "training"
