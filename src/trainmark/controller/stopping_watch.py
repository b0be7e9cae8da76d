"""Decides when a measurement is precise enough to stop, from the records as they arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.stopping import decide, next_look
from trainmark.controller.listener import Evaluation, Listener, RunStatus
from trainmark.messages.message import Message
from trainmark.runfolder.files import Json
from trainmark.runfolder.records import Kind
from trainmark.spec.suite import Measure


class StoppingWatch:
    """The observer of one run: called with its new records, returns a reason once the run should stop.

    Trainings and commands are only observed (`may_stop=False`): they end by themselves.
    """

    def __init__(self, measure: Measure, listener: Listener, *, unit: Callable[[], str], may_stop: bool) -> None:
        self._measure, self._listener, self._unit, self._may_stop = measure, listener, unit, may_stop
        self._seconds: list[float] = []
        self._samples: list[float] = []
        self._next_look = 1
        self._estimate: Estimate | None = None
        self._evaluation: Evaluation | None = None
        self._begin_s = time.monotonic()
        self._reason: Message | None = None

    def __call__(self, new: list[Json]) -> Message | None:
        self._read(new)
        if self._reason is None and len(self._seconds) >= self._next_look:
            self._look()
        self._listener.update_run(
            RunStatus(
                num_steps=len(self._seconds),
                elapsed_s=time.monotonic() - self._begin_s,
                unit=self._unit(),
                estimate=self._estimate,
                evaluation=self._evaluation,
            )
        )
        return self._reason

    def _read(self, new: Iterable[Json]) -> None:
        for record in new:
            if record["kind"] == Kind.STEP:
                self._seconds.append(float(record["seconds"]))
                self._samples.append(float(record["samples"]))
            elif record["kind"] == Kind.EVAL and (
                self._evaluation is None or self._evaluation.metric == record["metric"]
            ):  # a workload's first metric is its main one
                self._evaluation = Evaluation(metric=record["metric"], value=record["value"], epoch=record.get("epoch"))

    def _look(self) -> None:
        """Only at step counts that grow geometrically: looking more often would stop too early by chance."""
        self._next_look = next_look(len(self._seconds))
        decision = decide(self._seconds, self._samples, target=self._measure.target_ci)
        self._estimate = decision.estimate
        if self._may_stop and decision.stop and sum(self._seconds) >= self._measure.min_seconds:
            self._reason = decision.reason
