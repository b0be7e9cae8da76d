"""Decides when a measurement is precise enough to stop, from the records as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trainmark.analyse.stopping import StoppingRule
from trainmark.controller.listener import Evaluation, Listener, RunPhase, RunStatus
from trainmark.messages.message import Message
from trainmark.runfolder.files import Json
from trainmark.runfolder.records import Kind
from trainmark.spec.suite import Measure


def make_rule(measure: Measure) -> StoppingRule:
    """Half of the measuring time is enough to look for what is rare, however few steps it has."""
    return StoppingRule(
        target=measure.target_ci,
        min_seconds=measure.min_seconds,
        far_seconds=max(measure.min_seconds, measure.max_seconds / 2),
    )


_PHASES = {
    "load": RunPhase.IMPORTING,
    "build": RunPhase.BUILDING,
    "first_step": RunPhase.FIRST_STEP,
    "eval": RunPhase.EVALUATING,
    "checkpoint": RunPhase.SAVING,
    "compile": RunPhase.COMPILING,
    "communication": RunPhase.COMMUNICATION,
}
"""By the name in the records of a worker."""
_AFTER = {"communication": RunPhase.ENDING}
"""What follows a phase, where it is not more steps."""


class StoppingWatch:
    """The observer of one run: called with its new records, returns a reason once the run should stop.

    Trainings and commands are only observed (`may_stop=False`): they end by themselves.
    """

    def __init__(
        self, measure: Measure, listener: Listener, *, unit: Callable[[], str], may_stop: bool, has_phases: bool = True
    ) -> None:
        """`has_phases`: the records name what happens before the first step."""
        self._listener, self._unit, self._may_stop = listener, unit, may_stop
        self._rule = make_rule(measure)
        self._evaluation: Evaluation | None = None
        self._reason: Message | None = None
        self._phase: RunPhase | None = RunPhase.STARTING if has_phases else RunPhase.RUNNING
        """None between the phases that a worker names: steps are made."""
        self._what: str | None = None

    def __call__(self, new: list[Json]) -> Message | None:
        found = self._read(new)
        self._reason = self._reason or found
        self._listener.update_run(
            RunStatus(
                phase=self._phase or self._phase_of_steps(),
                what=self._what,
                num_steps=self._rule.num_steps,
                unit=self._unit(),
                estimate=self._rule.estimate,
                evaluation=self._evaluation,
            )
        )
        return self._reason if self._may_stop else None

    def _phase_of_steps(self) -> RunPhase:
        if not self._may_stop:
            return RunPhase.TRAINING
        return RunPhase.WARMING_UP if self._rule.estimate is None else RunPhase.MEASURING

    def _read(self, new: Iterable[Json]) -> Message | None:
        seconds, samples = [], []
        for record in new:
            if record["kind"] == Kind.PHASE:
                is_over = record.get("edge") == "end"
                self._phase = (_AFTER if is_over else _PHASES).get(record["phase"])
                self._what = record.get("what")
            elif record["kind"] == Kind.STEP:
                self._phase = self._what = None
                seconds.append(float(record["seconds"]))
                samples.append(float(record["samples"]))
            elif record["kind"] == Kind.EVAL and (
                self._evaluation is None or self._evaluation.metric == record["metric"]
            ):  # a workload's first metric is its main one
                self._evaluation = Evaluation(metric=record["metric"], value=record["value"], epoch=record.get("epoch"))
        return self._rule.add(seconds, samples)
