"""Changes of level inside a run: clocks that switch, another process that comes and goes.

Candidates are places where the means of the values before and after differ, at windows of several lengths. They count
only together, if steps at these places describe the series better than correlated noise does (`whitening.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.medians import median
from trainmark.analyse.whitening import Fit, fit

Floats = NDArray[np.float64]

_WINDOWS = np.array([5, 10, 20, 40, 80, 160, 320])
_MIN_SEGMENT = 3
_CANDIDATE = 5.0
"""Deviations of a candidate, as if the noise were independent."""
_MAX_CHANGES = 40
_KEPT = 3.5
"""Deviations below which a change is dropped again, with the correlation of the noise taken into account."""
GAIN_PER_CHANGE = 10.0
GAIN = 7.0
"""By how much the criterion must improve: simulated series without any change reach 7 + 10 in less than 1%."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """A series that is better described by levels than by noise around one."""

    changes: tuple[int, ...]
    """Index of the first value after each change."""
    low: float
    high: float
    """Mean of the lower and of the higher levels."""
    shares: tuple[float, float]
    """Of the values at each of the two."""
    means: tuple[float, ...]
    """Of the parts between changes, in order."""
    gain: float
    """By how much the criterion is better than that of noise."""

    @property
    def direction(self) -> int:
        """1 if every change goes up, -1 if every one goes down, 0 if they alternate."""
        rises = np.diff(self.means) > 0
        return 1 if rises.all() else 0 if rises.any() else -1

    @property
    def share_error(self) -> tuple[float, float]:
        """Standard error of the mean that comes from the share of time at each level, and its degrees of freedom.

        For dwell times that are exponential, after so many pairs of stays.
        """
        num_pairs = (len(self.changes) + 1) / 2
        low, high = self.shares
        return (self.high - self.low) * low * high * math.sqrt(2 / num_pairs), num_pairs


def find_levels(series: Floats, *, noise_only: Fit) -> Levels | None:
    changes = _propose(series)
    found = None
    while changes and found is None:
        steps = np.arange(len(series)) >= np.array(changes)[:, None]
        tried = fit(series, steps.astype(np.float64))
        kept = [change for change, deviation in zip(changes, tried.deviations, strict=True) if abs(deviation) > _KEPT]
        found = tried if len(kept) == len(changes) else None
        changes = kept
    if found is None:
        return None
    gain = noise_only.criterion - found.criterion
    if gain < GAIN + GAIN_PER_CHANGE * len(changes):
        return None
    return _describe(series, changes, gain)


def _propose(series: Floats) -> list[int]:
    """Places of the largest differences between the means of the windows before and after, at least 3 values apart."""
    n = len(series)
    noise = 1.4826 * median(np.abs(np.diff(series))) / np.sqrt(2)
    sums = np.concatenate(([0.0], np.cumsum(series)))
    places = np.arange(_MIN_SEGMENT, n - _MIN_SEGMENT + 1)
    best = np.zeros(n)
    windows = _WINDOWS[n >= _WINDOWS, None]
    if len(places) == 0 or noise <= 0 or not len(windows):
        return []
    before, after = np.minimum(windows, places), np.minimum(windows, n - places)
    left = (sums[places] - sums[places - before]) / before
    right = (sums[places + after] - sums[places]) / after
    best[places] = (np.abs(right - left) / (noise * np.sqrt(1 / before + 1 / after))).max(axis=0)
    found: list[int] = []
    while len(found) < _MAX_CHANGES:
        place = int(np.argmax(best))
        if best[place] < _CANDIDATE:
            break
        found.append(place)
        # All windows around a true change see it: the next one is where the scores have fallen in between.
        reach = _reach(best, place)
        best[reach[0] : reach[1]] = 0.0
    return _refine(sums, sorted(found))


def _reach(best: Floats, place: int) -> tuple[int, int]:
    """As far as the scores fall on both sides, to below half of the peak."""
    low = np.flatnonzero(best[:place] < best[place] / 2)
    high = np.flatnonzero(best[place:] < best[place] / 2)
    return (int(low[-1]) + 1 if len(low) else 0), (place + int(high[0]) if len(high) else len(best))


def _refine(sums: Floats, changes: list[int]) -> list[int]:
    """Each change moved to where it separates its two neighbours best."""
    refined: list[int] = []
    ends = [*changes[1:], len(sums) - 1]
    for end in ends:
        begin = refined[-1] if refined else 0
        if end - begin < 2 * _MIN_SEGMENT:
            continue
        places = np.arange(begin + _MIN_SEGMENT, end - _MIN_SEGMENT + 1)
        deviation = sums[places] - sums[begin] - (sums[end] - sums[begin]) * (places - begin) / (end - begin)
        refined.append(int(places[np.argmax(deviation**2 / ((places - begin) * (end - places)))]))
    return refined


def _describe(series: Floats, changes: list[int], gain: float) -> Levels:
    parts = np.split(series, changes)
    means = np.array([part.mean() for part in parts])
    sizes = np.array([len(part) for part in parts])
    ordered = np.sort(means)
    gap = int(np.argmax(np.diff(ordered)))
    is_high = means >= ordered[gap + 1]
    share = float(sizes[is_high].sum()) / len(series)
    return Levels(
        changes=tuple(changes),
        low=float(np.average(means[~is_high], weights=sizes[~is_high])),
        high=float(np.average(means[is_high], weights=sizes[is_high])),
        shares=(1 - share, share),
        means=tuple(float(mean) for mean in means),
        gain=gain,
    )
