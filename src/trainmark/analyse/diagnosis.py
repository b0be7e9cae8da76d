"""What is in the series of a run besides noise, and what it means for the interval.

A series has relative step durations: 1 is the mean. Regular slow steps and rare stalls are taken out first, since they
are known for what they are; levels and gradual changes are looked for in the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.digits import find_quantum
from trainmark.analyse.medians import median
from trainmark.analyse.periods import Period, without_period
from trainmark.analyse.regimes import Levels, find_levels
from trainmark.analyse.settling import Movement, find_movement
from trainmark.analyse.stalls import Stalls, find_stalls
from trainmark.analyse.whitening import fit

Floats = NDArray[np.float64]

_MIN_SHAPE = 30
"""Fewer values do not show a level or a drift."""
_MOST_VALUES = 2048
_CONSISTENT = 2.5
_ROUNDED = 0.25
_REACH = 2
_OUTLIER = 4.0
_PREFER_GRADUAL = 5.0
_PER_CHANGE = 2.0
"""Levels must describe the series better than a gradual change by this much, and this much per change."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    period: Period | None
    stalls: Stalls | None
    levels: Levels | None
    movement: Movement | None
    """At most one of `levels` and `movement`."""
    noise: Floats
    """The series without its regular slow steps and its stalls; its mean is that of the usual steps."""


def diagnose(series: Floats, period: Period | None, *, ramp: Floats | None) -> Diagnosis:
    """`series` has whole periods. `ramp`: durations from the end of the spikes on; the last are those of `series`."""
    rest = without_period(series, period) if period is not None else series
    stalls = find_stalls(rest)
    if stalls is not None:
        rest = stalls.rest
    levels, movement = find_shape(rest)
    if levels is None and movement is None and ramp is not None and len(ramp) > len(series):
        movement = _find_tail(rest, ramp)
    return Diagnosis(period=period, stalls=stalls, levels=levels, movement=movement, noise=rest)


def find_shape(series: Floats) -> tuple[Levels | None, Movement | None]:
    n = len(series)
    if n < _MIN_SHAPE or float(np.ptp(series)) <= 1e-9:
        return None, None
    values = _without_outliers(_shorten(_unrounded(series)))
    noise_only = fit(values, np.empty((0, len(values))))
    levels = find_levels(values, noise_only=noise_only)
    movement = find_movement(values, noise_only=noise_only)
    if levels is not None and movement is not None:
        margin = _PREFER_GRADUAL + _PER_CHANGE * len(levels.changes)
        return (levels, None) if levels.gain > movement.gain + margin else (None, movement)
    return levels, movement


def _unrounded(series: Floats) -> Floats:
    """With the noise that rounding took away: many equal values would make any other one look significant."""
    quantum = find_quantum(series)
    if quantum is None or quantum < _ROUNDED * float(series.std()):
        return series
    return np.asarray(series + quantum * (np.random.default_rng(0).random(len(series)) - 0.5))


def _shorten(series: Floats) -> Floats:
    """Means of neighbouring values where there are too many."""
    size = -(-len(series) // _MOST_VALUES)
    return series[len(series) % size :].reshape(-1, size).mean(axis=1) if size > 1 else series


def _without_outliers(series: Floats) -> Floats:
    """Values far from their neighbours are moved nearer: a few of them together would look like a level."""
    padded = np.pad(series, _REACH, mode="edge")
    neighbours = np.array([padded[place : place + len(series)] for place in range(2 * _REACH + 1)])
    neighbours.sort(axis=0)
    local = neighbours[_REACH]  # the median
    deviations = series - local
    most = _OUTLIER * 1.4826 * median(np.abs(deviations))
    if most == 0.0:  # rounded values, or a regular pattern
        return series
    clipped = local + np.clip(deviations, -most, most)
    return np.asarray(clipped + (series.mean() - clipped.mean()))


def _find_tail(rest: Floats, ramp: Floats) -> Movement | None:
    """What is left, in the steady steps, of a gradual approach that is seen only with the steps before them."""
    whole = np.concatenate((ramp[: len(ramp) - len(rest)] / ramp[len(ramp) - len(rest) :].mean(), rest))
    movement = find_shape(whole)[1]
    if movement is None:
        return None
    expected = np.interp(
        np.arange(len(whole) - len(rest), len(whole)),
        np.linspace(0, len(whole) - 1, len(movement.fitted)),
        movement.fitted,
    )
    expected -= expected.mean()
    values, shape = _shorten(rest), _shorten(expected)
    found = fit(values, shape[None])
    # How much of it the steady steps have, which should be all: 1.
    is_seen = abs(found.coefficients[0] - 1) * abs(found.deviations[0]) <= _CONSISTENT * abs(found.coefficients[0])
    return movement if is_seen else None
