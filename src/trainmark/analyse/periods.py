"""Slow steps at regular distances: logging, checkpoints, a loader that refills every so many steps.

Over whole periods they are no noise at all. So a series with a period is cut to whole periods, and its regular part is
taken out before the noise is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.medians import level_and_noise

Floats = NDArray[np.float64]

_DEVIATIONS = 5.0
_SHARE_OF_STEP = 0.02
_MIN_EVENTS = 3
_MIN_REGULAR = 0.9
"""Of the places where a slow step is due, and of the slow steps, this share must agree."""


@dataclass(frozen=True, kw_only=True)
class Period:
    length: int
    first: int
    """Index of the first slow step."""

    def cut(self, num_steps: int) -> int:
        """How many steps to leave out at the start, so that whole periods remain."""
        return num_steps % self.length

    def after(self, cut: int) -> Period:
        return Period(length=self.length, first=(self.first - cut) % self.length)


def find_period(series: Floats) -> Period | None:
    n = len(series)
    level, noise = level_and_noise(series)
    slow = np.flatnonzero(series - level > max(_DEVIATIONS * noise, _SHARE_OF_STEP * abs(level)))
    if len(slow) < _MIN_EVENTS:
        return None
    length = int(np.bincount(np.diff(slow)).argmax())
    if length < 2:
        return None
    phase = int(np.bincount(slow % length).argmax())
    regular = int(np.count_nonzero(slow % length == phase))
    due = len(range(phase, n, length))
    if due < _MIN_EVENTS or regular < _MIN_REGULAR * due or regular < _MIN_REGULAR * len(slow):
        return None
    return Period(length=length, first=phase)


def without_period(series: Floats, period: Period) -> Floats:
    """The series less the mean excess of its regular slow steps; the mean of the whole stays."""
    slow = np.arange(len(series)) % period.length == period.first
    excess = float(series[slow].mean() - series[~slow].mean())
    return np.asarray(series - excess * (slow - slow.mean()))
