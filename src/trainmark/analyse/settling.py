"""Whether a series moves gradually: a drift, a machine that heats up, a warm-up that has not ended.

The shapes tried are exponential approaches to a final level with time constants from a fortieth of the run up, and a
straight line. With a time constant much shorter than the run the final level can be told; otherwise it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.whitening import Fit, fit

Floats = NDArray[np.float64]

_TIME_CONSTANTS = (0.025, 0.04, 0.06, 0.08, 0.11, 0.15, 0.2, 0.26, 0.33, 0.42, 0.55, 0.75, 1.1)
"""As shares of the run; the straight line comes last."""
_SETTLED = 0.42
"""Up to this share of the run, the final level can be told."""
GAIN = 10.0
"""By how much the criterion must improve: in 1% of simulated correlated series without a trend it is 4 to 10."""
_AS_GOOD = 4.0
_NEAR = 4
_MIN_VALUES = 8
_KNOWN = 0.1
"""A final level within a wider interval, relative to the mean, cannot be told either."""
_DEVIATIONS = 2.5


@dataclass(frozen=True, kw_only=True)
class Movement:
    gain: float
    change: float
    """From the first value to the last, as fitted."""
    final: tuple[float, float] | None
    """Interval of the final level; None if it cannot be told."""
    fitted: Floats
    """The gradual part of each value, less its mean."""


def find_movement(series: Floats, *, noise_only: Fit) -> Movement | None:
    shapes = _shapes(len(series))
    centred = series - series.mean()
    rough = (shapes @ centred) ** 2 / np.einsum("ij,ij->i", shapes, shapes)
    # A shape of few values is lost where the filter of correlated noise begins.
    first = sum(constant * len(series) < _MIN_VALUES for constant in _TIME_CONSTANTS)
    best = first + int(np.argmax(rough[first:]))
    if noise_only.criterion - fit(series, shapes[best : best + 1]).criterion < GAIN:
        return None
    # Far from the best, no shape fits as well.
    near = range(max(first, best - _NEAR), min(len(shapes), best + _NEAR + 1))
    fits = {place: fit(series, shapes[place : place + 1]) for place in near}
    best = min(fits, key=lambda place: fits[place].criterion)
    amplitude = float(fits[best].coefficients[0])
    shape = shapes[best]
    least = fits[best].criterion
    as_good = [place for place, found in fits.items() if found.criterion <= least + _AS_GOOD]
    final = None
    if all(place < len(_TIME_CONSTANTS) and _TIME_CONSTANTS[place] <= _SETTLED for place in as_good):
        ends = [_final(fits[place], shapes[place]) for place in as_good]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        final = (low, high) if high - low <= _KNOWN * float(series.mean()) else None
    return Movement(
        gain=noise_only.criterion - least,
        change=amplitude * float(shape[-1] - shape[0]),
        final=final,
        fitted=amplitude * shape,
    )


def _final(found: Fit, shape: Floats) -> tuple[float, float]:
    """The shapes are centred and begin at 1 above their end."""
    amplitude, error = float(found.coefficients[0]), abs(float(found.coefficients[0] / found.deviations[0]))
    offset = float(shape[0]) - 1.0
    level = found.constant + amplitude * offset
    spread = _DEVIATIONS * float(np.hypot(found.constant_error, error * offset))
    return level - spread, level + spread


@lru_cache(maxsize=16)
def _shapes(num: int) -> Floats:
    """One row per time constant and one for the line, each with mean 0; exponentials start at 1 above their end."""
    time = np.arange(num) / num
    shapes = np.vstack((np.exp(-time / np.array(_TIME_CONSTANTS)[:, None]), -time))
    shapes -= shapes.mean(axis=1, keepdims=True)
    shapes.setflags(write=False)
    return shapes
