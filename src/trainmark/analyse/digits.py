"""How much the rounding of durations or rates can hide: printed digits, a clock that ticks slowly.

Rounding to multiples of q is harmless if the noise is larger than q: errors cancel. If most values are the same, all of
them may be wrong in the same direction by up to q / 2. In between, a share p of the values at the next multiple tells
that the truth is at most q |1/2 - p| from the mean, the case of noise that is much smaller than q.

Time stamps of a slow clock are another matter: what one duration loses the next one gets, so sums are exact. It shows
in sums of neighbouring values, which then vary much less than single values do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.medians import median

Floats = NDArray[np.float64]

_FINEST = 1e-5
"""Relative to a value: finer rounding is not looked for."""
_TOLERANCE = 1e-6
_SAME = 1e-9
_DITHERED = 0.6
"""Standard deviation, in units of q, from which errors cancel to less than 0.2% of q."""
_LEFT_OVER = 0.02
_CLOCK_RATIO = 0.35
"""Variance of sums of neighbouring values, compared with what independent values would have."""


def rounding_error(durations: Floats, rates: Floats) -> float:
    """By how much rounding may have moved the mean, relative to it."""
    for values in (durations, rates):
        quantum = find_quantum(values)
        if quantum is not None:
            return _hidden(values / quantum) * quantum / float(np.median(values))
    return 0.0


def declared_error(durations: Floats, rounding: Floats, *, is_sum: bool) -> float | None:
    """The same from the printed digits of a log: half of the last one of each record, in its seconds.

    `is_sum`: records are differences of a total, so that all their errors together are that of the total. None if the
    digits are not known.
    """
    if len(rounding) != len(durations) or not (rounding > 0).any():
        return None
    if is_sum:
        return float(rounding.sum() / durations.sum())
    known = rounding > 0
    quanta = 2 * rounding[known]
    hidden = _hidden(durations[known] / quanta, may_be_clock=False)
    return hidden * float(np.median(quanta / durations[known]))


def find_quantum(values: Floats) -> float | None:
    """The largest power of ten or smallest difference of which all values are multiples; None if too small."""
    middle = median(values)
    if middle <= 0:
        return None
    # Differences of time stamps have errors in their last bits.
    distinct = np.unique(np.round(values / (_SAME * middle))) * (_SAME * middle)
    if distinct[0] <= 0:
        return None
    finest = _FINEST * middle
    candidates = [
        10.0**power for power in range(math.floor(math.log10(distinct[0])), math.ceil(math.log10(finest)), -1)
    ]
    if len(distinct) > 1:
        candidates.append(float(np.diff(distinct).min()))
    fitting = (quantum for quantum in sorted(candidates, reverse=True) if quantum >= finest)
    return next((quantum for quantum in fitting if _are_multiples(distinct, quantum)), None)


def _are_multiples(values: Floats, quantum: float) -> bool:
    multiples = values / quantum
    return bool(np.all(np.abs(multiples - np.round(multiples)) <= _TOLERANCE * np.maximum(multiples, 1.0)))


def _hidden(multiples: Floats, *, may_be_clock: bool = True) -> float:
    """Largest error of the mean, in units of the quantum."""
    middle = float(np.median(multiples))
    near = multiples[np.abs(multiples - middle) <= max(3.0, 0.5 * middle)]  # stalls say nothing about rounding
    deviation = float(np.diff(near).std()) / math.sqrt(2) if len(near) > 1 else 0.0
    if deviation >= _DITHERED or (may_be_clock and _is_clock(near)):
        return 0.0
    return min(0.5, math.sqrt(max(0.25 - deviation**2, 0.0)) + _LEFT_OVER)


def _is_clock(multiples: Floats) -> bool:
    n = len(multiples)
    size = math.isqrt(n)
    variance = float(multiples.var())
    if size < 4 or variance == 0.0:
        return False
    num = n // size
    sums = multiples[: num * size].reshape(num, size).sum(axis=1)
    return float(sums.var()) < _CLOCK_RATIO * size * variance
