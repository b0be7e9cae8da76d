"""Rare steps that take much longer than the others: garbage collection, a slow disk, a second compilation.

They are few, so their number is the uncertain part: three stalls seen may be one or eight in another run. The interval
of a mean with stalls is therefore made of two, one for the other steps and one for the number of stalls as a Poisson
count. A single one may be an event that never comes again, which stays possible in the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.medians import level_and_noise

Floats = NDArray[np.float64]

_DEVIATIONS = 10.0
_SHARE_OF_STEP = 0.5
_MAX_SHARE = 0.05
"""More of them are not rare: they are part of the noise."""
_MAYBE_ONCE = 2
"""So few events may all have been of a kind that does not come again."""
_Z = 1.96


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """Times are in units of the series."""

    steps: NDArray[np.intp]
    """Where the series stalled."""
    num_events: int
    """Neighbouring stalled steps are one event."""
    times: float
    """The largest step, compared with a usual one."""
    mean_excess: float
    """Of all events, per step of the series."""
    below: float
    above: float
    """How far the true mean excess may lie below and above `mean_excess`."""
    is_maybe_once: bool
    """So few events that none may come again."""
    rest: Floats
    """The series with usual steps in place of the stalled ones."""


def find_stalls(series: Floats) -> Stalls | None:
    level, noise = level_and_noise(series)
    excess = series - level
    stalled = np.flatnonzero(excess > max(_DEVIATIONS * noise, _SHARE_OF_STEP * abs(level)))
    n = len(series)
    if len(stalled) == 0 or len(stalled) > max(1, _MAX_SHARE * n):
        return None
    usual = np.ones(n, dtype=np.bool_)
    usual[stalled] = False
    rest = np.where(usual, series, float(series[usual].mean()))
    over = series[stalled] - rest[stalled]
    sizes = np.add.reduceat(over, np.flatnonzero(np.diff(stalled, prepend=-2) > 1))
    below, above = _count_error(len(sizes), float(np.std(sizes) / np.mean(sizes)))
    mean_size = float(sizes.mean())
    return Stalls(
        steps=stalled,
        num_events=len(sizes),
        times=float(series.max() / level),
        mean_excess=float(sizes.sum()) / n,
        below=below * mean_size / n,
        above=above * mean_size / n,
        is_maybe_once=len(sizes) <= _MAYBE_ONCE,
        rest=rest,
    )


def _count_error(count: int, variation: float) -> tuple[float, float]:
    """How far below and above `count` a Poisson mean may be, in 95 of 100 cases, if sizes vary by `variation`.

    The exact limits are quantiles of the gamma distribution, here by the approximation of Wilson and Hilferty.
    """
    least = count * max(0.0, 1 - 1 / (9 * count) - _Z / (3 * math.sqrt(count))) ** 3 if count > _MAYBE_ONCE else 0.0
    more = count + 1
    most = more * (1 - 1 / (9 * more) + _Z / (3 * math.sqrt(more))) ** 3
    wider = math.sqrt(1 + variation**2)
    return min(wider * (count - least), count), wider * (most - count)
