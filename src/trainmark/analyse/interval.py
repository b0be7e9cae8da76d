"""The interval of one run from the diagnosis of its series, or the reason why there is none.

All widths are logarithms of relative durations: `slower` is how far the true rate may lie below the value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainmark.analyse.diagnosis import Diagnosis
from trainmark.analyse.estimate import quantile_975
from trainmark.analyse.longrun import long_run_variance
from trainmark.analyse.stalls import Stalls
from trainmark.messages.doubts import (
    drift,
    long_pause,
    periodic,
    printed_digits,
    rare_stalls,
    still_warming_up,
    two_levels,
)
from trainmark.messages.message import Message

_MANY_CHANGES = 12
"""So many changes of level show how much of the time is spent at each."""
_WARM_UP_FACTOR = 1.25
"""A single change to a level that is faster by this factor is the end of a warm-up, not another clock."""
_MOST_BY_STALLS = 0.1
_MOST_BY_ROUNDING = 0.1
_PAUSE = 20.0
"""A lone step so many times as long as others is named a pause, not a stall."""
_WORTH_NAMING = 0.2
"""A part of the width that is named."""


@dataclass(frozen=True, kw_only=True)
class Width:
    slower: float
    faster: float
    dof: float
    doubts: tuple[Message, ...]

    def around(self, value: float) -> tuple[float, float]:
        return value * math.exp(-self.slower), value * math.exp(self.faster)

    @property
    def std_error(self) -> float:
        """Relative, of a symmetric interval of the same width."""
        return (self.slower + self.faster) / 2 / quantile_975(self.dof)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    doubts: tuple[Message, ...]


def find_width(found: Diagnosis, *, rounding: float, value: float) -> Width | Refusal:
    """`rounding`: by how much rounding may have moved the mean."""
    known = (periodic(period=found.period.length),) if found.period is not None else ()
    reason = _shape_reason(found, value) or _rounding_reason(rounding)
    if reason is not None:
        stalled = (_name_stalls(found.stalls, len(found.noise)),) if found.stalls is not None else ()
        return Refusal(doubts=(reason, *stalled, *known))
    noise, dof = _noise_width(found)
    slower = faster = noise
    doubts = [*known]
    if found.stalls is not None:
        slower, faster = _add_stalls(found.stalls, noise)
        if slower + faster > 2 * max(_MOST_BY_STALLS, 2 * noise):
            return Refusal(doubts=(_name_stalls(found.stalls, len(found.noise)), *known))
        if slower + faster > 2 * noise * (1 + _WORTH_NAMING):
            doubts.append(_name_stalls(found.stalls, len(found.noise)))
    if found.movement is not None and found.movement.final is not None:
        low, high = (end + 1 - float(found.noise.mean()) for end in found.movement.final)
        slower, faster = max(slower, math.log(high)), max(faster, -math.log(low))
    if rounding > _WORTH_NAMING * slower:
        doubts.append(printed_digits(share=2 * rounding))
    slower, faster = slower + math.log1p(rounding), faster - math.log1p(-rounding)
    if found.levels is not None:
        doubts.append(_name_levels(found, value))
    return Width(slower=slower, faster=faster, dof=dof, doubts=tuple(doubts))


def _noise_width(found: Diagnosis) -> tuple[float, float]:
    """Half width by the noise between the steps, and its degrees of freedom."""
    long_run = long_run_variance(found.noise - found.noise.mean(), rounding=1e-12)
    if long_run.variance == 0.0:
        return 0.0, long_run.dof
    width = quantile_975(long_run.dof) * math.sqrt(long_run.variance / len(found.noise))
    if found.levels is not None:
        error, dof = found.levels.share_error
        width = max(width, quantile_975(dof) * error)
    # A mean is hardly farther from the truth than the values are from each other.
    return min(width, float(np.ptp(found.noise))), long_run.dof


def _add_stalls(stalls: Stalls, noise: float) -> tuple[float, float]:
    more, less = math.log1p(stalls.above), -math.log1p(-min(stalls.below, 0.99))
    # If no stall ever comes again, the truth is at the very end of the interval of the stalls, and the noise adds up.
    return math.hypot(noise, more), noise + less if stalls.is_maybe_once else math.hypot(noise, less)


def _shape_reason(found: Diagnosis, value: float) -> Message | None:
    if found.movement is not None and found.movement.final is None:
        return _name_movement(found.movement.change)
    levels = found.levels
    if levels is None or len(levels.changes) >= _MANY_CHANGES:
        return None
    # Several changes the same way are a slope. A single one is the end of a warm-up only if it is large.
    if levels.direction and (len(levels.changes) > 1 or levels.high > _WARM_UP_FACTOR * levels.low):
        return _name_movement(levels.means[-1] / levels.means[0] - 1)
    return _name_levels(found, value)


def _rounding_reason(rounding: float) -> Message | None:
    return printed_digits(share=2 * rounding) if rounding > _MOST_BY_ROUNDING else None


def _name_movement(change: float) -> Message:
    """`change` of the durations."""
    change_of_rate = 1 / (1 + max(change, -0.9)) - 1
    return drift(change=change_of_rate) if change > 0 else still_warming_up(change=change_of_rate)


def _name_levels(found: Diagnosis, value: float) -> Message:
    assert found.levels is not None
    offset = 1 - float(found.noise.mean())
    low, high = found.levels.low + offset, found.levels.high + offset
    return two_levels(high=value / low, low=value / high, times=len(found.levels.changes))


def _name_stalls(stalls: Stalls, num_steps: int) -> Message:
    if stalls.num_events == 1 and stalls.times >= _PAUSE:
        return long_pause(step=int(stalls.steps[-1]) + 1, times=stalls.times)
    return rare_stalls(stalls=len(stalls.steps), steps=num_steps, times=stalls.times)
