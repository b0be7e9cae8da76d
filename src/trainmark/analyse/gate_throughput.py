"""The rule of `check` for throughput: the verdict of `compare`, asked in one direction.

A regression is a verdict "slower" whose ratio is beyond the tolerance. A pass is a verdict "faster" or "same", or a
lower limit (one-sided, 95%) that is within the tolerance. All else is inconclusive: a gate that cannot tell says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from trainmark.analyse.accepted import Accepted
from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.batches import Batch, values_of
from trainmark.analyse.gate_result import Finding, Status
from trainmark.analyse.repeats import pool
from trainmark.analyse.tolerance import Metric
from trainmark.analyse.verdict import Judgement, Sides, judge_cells
from trainmark.messages import gate as messages
from trainmark.messages.comparison import chance_among_many
from trainmark.messages.message import Message

_MOST_RUNS = 50
"""More are not advised: another hour on the machine would change more than they would."""


@dataclass(frozen=True, kw_only=True)
class Case:
    accepted: Accepted
    batch: Batch
    history: tuple[Batch, ...]
    """Other batches of the same cell and machine: for their spread, not for their level."""
    tolerance: float

    @property
    def sides(self) -> Sides:
        return Sides(
            a=self.accepted.values[Metric.THROUGHPUT],
            b=values_of(self.batch, Metric.THROUGHPUT),
            history=tuple(values for batch in self.history if len(values := values_of(batch, Metric.THROUGHPUT)) > 1),
        )


def judge_throughput(cases: Sequence[Case]) -> list[Finding]:
    """All cells of a check at once: they share what is known about the spread, and the rate of false alarms."""
    reasons = [why_no_number(case.batch) for case in cases]
    usable = [case for case, why in zip(cases, reasons, strict=True) if why is None]
    sides = [case.sides for case in usable]
    # A verdict depends on the tolerance, what the cells share does not.
    judged = {tolerance: judge_cells(sides, tolerance=tolerance) for tolerance in {case.tolerance for case in usable}}
    found = iter([_decide(case, judged[case.tolerance][place]) for place, case in enumerate(usable)])
    return [
        next(found) if why is None else _unusable(case, why) for case, why in zip(cases, reasons, strict=True)
    ]  # fmt: skip


def why_no_number(batch: Batch) -> Message | None:
    """Why the batch has no throughput that can be judged; None if it has one."""
    estimates = [estimate for row in batch.measured if (estimate := estimate_run(row)) is not None]
    if not estimates:
        return name_left_out(batch)
    pooled = pool(estimates)
    if pooled.is_too_noisy:
        return messages.too_noisy(half_width=pooled.relative_half_width or math.inf)
    return pooled.doubts[0] if pooled.is_refused else None  # a single run that drifted, for example


def name_left_out(batch: Batch) -> Message | None:
    """The first run that does not count; None if all do."""
    return next((messages.left_out(run=row.id, why=why) for row, why in batch.left_out), None)


def _unusable(case: Case, why: Message) -> Finding:
    before = case.accepted.values[Metric.THROUGHPUT]
    return Finding(
        metric=Metric.THROUGHPUT,
        status=Status.INCONCLUSIVE,
        why=messages.no_number(why=why),
        before=geometric_mean(before),
        tolerance=case.tolerance,
        num_runs=(len(before), len(case.batch.ok)),
    )


def status_of(judged: Judgement, tolerance: float) -> Status:
    if judged.verdict == "slower":
        return Status.REGRESSION
    if judged.verdict == "faster":
        return Status.PASS
    if judged.ci90 is None or judged.far_a is not None or judged.far_b is not None:
        return Status.INCONCLUSIVE
    return Status.PASS if judged.verdict == "same" or judged.ci90[0] - 1 > -tolerance else Status.INCONCLUSIVE


def _decide(case: Case, judged: Judgement) -> Finding:
    assert judged.ratio is not None  # both sides have runs
    status, why = status_of(judged, case.tolerance), _explain(case, judged)
    left_out = name_left_out(case.batch)
    if status is Status.PASS and left_out is not None:
        # It may be a slow-down that comes and goes.
        status, why = Status.INCONCLUSIVE, messages.pass_without(rest=why, why=left_out)
    return Finding(
        metric=Metric.THROUGHPUT,
        status=status,
        why=why,
        before=geometric_mean(case.sides.a),
        now=geometric_mean(case.sides.b),
        ratio=judged.ratio.value,
        ci95=judged.ratio.ci95,
        tolerance=case.tolerance,
        num_runs=judged.runs,
        spread=judged.spread,
    )


def _explain(case: Case, judged: Judgement) -> Message:
    assert judged.ratio is not None
    status, change, tolerance = status_of(judged, case.tolerance), judged.ratio.value - 1, case.tolerance
    low, high = (None, None) if judged.ratio.ci95 is None else (end - 1 for end in judged.ratio.ci95)
    if low is None or high is None:
        return messages.one_run(change=change, advice=_advise(judged))
    if status is Status.REGRESSION:
        return messages.slower(loss=-change, low=low, high=high, tolerance=tolerance)
    if judged.verdict == "faster":
        return messages.faster(change=change, low=low, high=high)
    if status is Status.PASS:
        return messages.within(change=change, low=low, high=high, tolerance=tolerance)
    if judged.far_a is not None or judged.far_b is not None:
        return _name_far(case, judged)
    if judged.why.code == chance_among_many.code and change < 0:
        cells = judged.why.params["cells"]
        return messages.chance(change=change, low=low, high=high, cells=cells, advice=_advise(judged))
    return messages.undecided(
        change=change, low=low, high=high, tolerance=tolerance, spread=judged.spread or 0.0, advice=_advise(judged)
    )


def _name_far(case: Case, judged: Judgement) -> Message:
    """A run that the verdict left out may be chance, or a slow-down that comes and goes."""
    is_now = judged.far_b is not None
    values, place = (case.sides.b, judged.far_b) if is_now else (case.sides.a, judged.far_a)
    others = [value for number, value in enumerate(values) if number != place]
    gap = values[place or 0] / geometric_mean(others) - 1
    return messages.far_run(side="new" if is_now else "accepted", gap=gap)


def _advise(judged: Judgement) -> Message:
    """More runs now, if these can decide it; else more in the baseline too, whose error stays otherwise."""
    if judged.more_runs is None:
        return messages.less_noise()
    before, now = judged.runs
    wanted = 1 / (before + judged.more_runs) + 1 / (now + judged.more_runs)
    rest = wanted - 1 / before
    repeat = math.ceil(1 / rest) if rest > 0 else math.inf
    if repeat <= _MOST_RUNS:
        return messages.more_runs(repeat=int(repeat))
    repeat = max(before, now) + judged.more_runs
    return messages.more_baseline(runs=before, repeat=repeat) if repeat <= _MOST_RUNS else messages.less_noise()
