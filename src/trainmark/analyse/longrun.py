"""Long-run variance: the variance of a mean of values that are correlated in time.

For n values with autocovariances g_k, the variance of their mean is V / n with V = g_0 + 2 (g_1 + g_2 + ...). V is
found by fitting an autoregression (Burg's recursion, order by AICc) and taking its spectrum at frequency zero. With
the reflection coefficients r_k of the recursion everything needed is a running product or sum:

    s_k = s_{k-1} (1 - r_k^2)      residual variance of order k
    a_k = a_{k-1} (1 - r_k)        the autoregressive polynomial at frequency zero
    V_k = s_k / a_k^2              long-run variance if the order is k
    var(V_p) / V_p^2 = (2 / n) (1 + 2 sum_{k<p} V_p / V_k)      from the information matrix of the fit

The last line gives the degrees of freedom for Student's t, 2 V^2 / var(V): few if values are strongly correlated. It is
asymptotic; the corrections below (batches, bias of r, no order 0, unfinished cycles) make the intervals valid at small
n. `throughput.py` has the simulated coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# A long series is first averaged into about this many batches. A slow drift under much jitter, which no order that AICc
# would choose sees in single values, shows in batches: coverage 95% instead of 90% at n = 1000. Costs 2% of width.
_NUM_BATCHES = 100

# r_1 and r_2 are biased by -(1 + 3 r_1) / n and -(2 + 4 r_2) / n when the mean is estimated too. Undoing all of it
# makes V, which is convex in r, too large (97% instead of 95% for a correlation of 0.9); this share was best in
# simulation. Higher orders stay: a large r_k there is a cycle of k steps, and correcting it inflates V twentyfold.
_BIAS_OFFSET = (1.0, 2.0)
_BIAS_SLOPE = (3.0, 4.0)
_BIAS_SHARE = 0.75

# Below two degrees of freedom the t quantile explodes and the asymptotic formula above has no meaning.
_MIN_DOF = 2.0

# Residual variance, relative to the whole, at which a series counts as perfectly predicted.
_PREDICTED = 1e-12


@dataclass(frozen=True, kw_only=True)
class LongRun:
    """Long-run variance of a series."""

    variance: float
    """n times the variance of the mean."""

    dof: float
    """How well `variance` is known, as degrees of freedom; infinite for a constant."""


def long_run_variance(values: NDArray[np.float64], *, rounding: float = 0.0) -> LongRun:
    """Long-run variance of at least two values; a standard deviation up to `rounding` counts as zero."""
    n = len(values)
    spread = float(values.var())
    if spread <= rounding**2:
        return LongRun(variance=0.0, dof=math.inf)
    size = max(1, n // _NUM_BATCHES)
    num_batches = n // size
    batches = values[n - num_batches * size :].reshape(num_batches, size).mean(axis=1)
    deviations = batches - batches.mean()
    variance = float(deviations @ deviations) / num_batches
    # A cycle of k steps that ends half-way leaves up to k / 4 times the variance in the sum of the series. Within a
    # batch it is added here, over several batches in `_autoregress`.
    unfinished = spread * (size - 1) / (4 * n)
    if variance <= _PREDICTED * spread:
        return LongRun(variance=unfinished, dof=math.inf)
    fit = _autoregress(deviations, variance)
    return LongRun(variance=size * fit.variance + unfinished, dof=fit.dof)


def _autoregress(deviations: NDArray[np.float64], variance: float) -> LongRun:
    n = len(deviations)
    reflections = burg(deviations, _max_order(n))
    residuals = variance * np.maximum(np.cumprod(np.concatenate(([1.0], 1.0 - reflections**2))), _PREDICTED)
    orders = np.arange(len(residuals))
    criterion = n * np.log(residuals) + n * (n + orders) / np.maximum(n - orders - 2, 0.5)
    # Never order 0: treating a short series as independent because nothing else is proven costs coverage (79%, not 94%,
    # for n = 10 and a correlation of 0.5); allowing for one neighbour costs 3% of width at n = 100.
    order = 1 + int(np.argmin(criterion[1:]))
    at_zero = np.cumprod(np.concatenate(([1.0], 1.0 - _less_biased(reflections, n))))
    by_order = residuals * n / np.maximum(n - 1 - orders, 1) / at_zero**2
    chosen = float(by_order[order])
    dof = n / (1 + 2 * chosen * float(np.sum(1.0 / by_order[:order]))) - 1
    # Unfinished cycles, see above: without them one slow step in 8 was never covered at n = 60, one in 16 in 77% of
    # the trials at n = 300.
    unfinished = variance * order / (4 * n)
    return LongRun(variance=chosen + unfinished, dof=max(dof, min(_MIN_DOF, n - 1)))


def _max_order(num_values: int) -> int:
    """Highest order to try: enough for a cycle of a few loader workers, at most an eighth of the values."""
    return max(1, num_values // 8)


def burg(deviations: NDArray[np.float64], order: int) -> NDArray[np.float64]:
    """Reflection coefficients 1..order: the correlations of the forward and backward prediction errors."""
    reflections: list[float] = []
    forward, backward = deviations[1:], deviations[:-1]
    negligible = _PREDICTED * 2 * float(deviations @ deviations)
    for _ in range(order):
        power = float(forward.dot(forward) + backward.dot(backward))
        if power <= negligible:
            break
        reflection = 2.0 * float(forward.dot(backward)) / power
        reflections.append(reflection)
        forward, backward = (forward - reflection * backward)[1:], (backward - reflection * forward)[:-1]
    return np.array(reflections, dtype=np.float64)


def _less_biased(reflections: NDArray[np.float64], num_values: int) -> NDArray[np.float64]:
    corrected = reflections.copy()
    for k, (offset, slope) in enumerate(zip(_BIAS_OFFSET, _BIAS_SLOPE, strict=True)):
        corrected[k : k + 1] += _BIAS_SHARE * (offset + slope * reflections[k : k + 1]) / num_values
    # A coefficient of 1 would be a random walk, which has no mean to estimate.
    return np.clip(corrected, -1.0, 1.0 - 1.0 / num_values)
