"""Where a step loses time against perfect scaling: communication, slower computation, or neither.

With the same batch per device, a step on more devices should take as long as a step of the baseline; with the same
global batch it should take proportionally less. The difference is lost time. The twin step, which exchanges no
gradients, splits it:

    lost            = step - ideal step
    communication   = exposed communication - that of the baseline
    computation     = twin step - that of the baseline, where fewer processes share cores, memory, power and clocks
    the rest        = neither: the measured steps and the steps measured beside their twins differ by it
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainmark.analyse.communication import Communication, read_communication
from trainmark.analyse.estimate import Ratio
from trainmark.analyse.table import Line
from trainmark.messages.message import Message
from trainmark.messages.scaling import base_exchange_not_measured, exchange_not_measured, step_time_unknown

Cause = Literal["communication", "compute", "rest"]

POOR = 0.95
"""If the whole interval of an efficiency is below this, its cause is explained."""
_OWN_SOURCE = "trainmark"
_BATCH_UNITS = frozenset({"images", "samples", "examples", "sequences", "sentences", "clips", "videos"})
"""Units of other people's logs in which a batch is counted: not tokens, words, steps or iterations."""


@dataclass(frozen=True, kw_only=True)
class Split:
    communication_s: float
    compute_s: float
    rest_s: float
    twin_s: float
    """Time of the twin step, and its ideal: what it would take if computation were as fast as in the baseline."""
    ideal_twin_s: float
    gradient_bytes: int
    allreduce_gb_per_s: float | None

    @property
    def cause(self) -> Cause:
        """The largest part."""
        parts: dict[Cause, float] = {
            "communication": self.communication_s,
            "compute": self.compute_s,
            "rest": self.rest_s,
        }
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True, kw_only=True)
class LostTime:
    """Of one step."""

    lost_s: float | None
    split: Split | None
    reason: Message | None
    """Why there is no split; None if there is one."""


def is_poor(efficiency: Ratio | None) -> bool:
    if efficiency is None:
        return False
    return (efficiency.ci95[1] if efficiency.ci95 else efficiency.value) < POOR


def explain_lost_time(line: Line, baseline: Line, *, scale: float) -> LostTime:
    """`scale`: time of the ideal step over that of the baseline; 1 for the same batch per device."""
    step_s, baseline_s = _step_s(line), _step_s(baseline)
    if step_s is None or baseline_s is None:
        return LostTime(lost_s=None, split=None, reason=step_time_unknown())
    lost_s = step_s - scale * baseline_s
    own = _communication(line)
    if own is None:
        return LostTime(lost_s=lost_s, split=None, reason=_why_not(line))
    baseline_own = _communication(baseline)
    if baseline_own is None and (baseline.first.devices or 0) > 1:
        return LostTime(lost_s=lost_s, split=None, reason=base_exchange_not_measured())
    exposed_s, twin_s = (baseline_own.exposed_s, baseline_own.compute_s) if baseline_own else (0.0, baseline_s)
    communication_s = own.exposed_s - scale * exposed_s
    compute_s = own.compute_s - scale * twin_s
    split = Split(
        communication_s=communication_s,
        compute_s=compute_s,
        rest_s=lost_s - communication_s - compute_s,
        twin_s=own.compute_s,
        ideal_twin_s=scale * twin_s,
        gradient_bytes=own.gradient_bytes,
        allreduce_gb_per_s=own.allreduce_gb_per_s,
    )
    return LostTime(lost_s=lost_s, split=split, reason=None)


def _step_s(line: Line) -> float | None:
    first = line.first
    if line.estimate is None or first.devices is None or first.batch_size_per_device is None:
        return None
    if first.source != _OWN_SOURCE and first.unit not in _BATCH_UNITS:
        return None  # tokens a second do not tell how long a batch of sequences takes
    return first.devices * first.batch_size_per_device / line.estimate.value


def _communication(line: Line) -> Communication | None:
    """Medians over all repeats."""
    found = [own for run in line.runs if (own := read_communication(run)) is not None]
    if not found:
        return None
    return replace(
        found[0],
        exposed_s=statistics.median(own.exposed_s for own in found),
        compute_s=statistics.median(own.compute_s for own in found),
        allreduce_gb_per_s=_median([own.allreduce_gb_per_s for own in found]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _why_not(line: Line) -> Message:
    records = (run.communication for run in line.runs if run.communication is not None)
    return next((Message.from_reason(one) for one in records if one.get("reason")), exchange_not_measured())
