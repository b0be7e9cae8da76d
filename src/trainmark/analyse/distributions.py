"""Student's t and the F distribution for verdicts, in the standard library: importing scipy takes 0.3 s.

`estimate.quantile_975` is the quantile of every printed interval; here are the tails of any size. A test compares them
with scipy.
"""

from __future__ import annotations

import math
import statistics
from functools import lru_cache

_MANY_TERMS = 300
_TINY = 1e-300
_MOST_DOF = 1e6
"""More degrees of freedom than this change no printed digit."""


def t_two_sided(t: float, dof: float) -> float:
    """Probability of a value further from 0 than `t` in either direction."""
    if t == 0.0:
        return 1.0
    dof = min(dof, _MOST_DOF)
    return _incomplete_beta(dof / (dof + t * t), dof / 2, 0.5)


@lru_cache(maxsize=4096)
def t_quantile(two_sided: float, dof: float) -> float:
    """The t that is exceeded in either direction with the probability `two_sided`: 0.1 for a 90% interval."""
    dof = min(dof, _MOST_DOF)
    log_t = math.log(statistics.NormalDist().inv_cdf(1 - two_sided / 2))
    for _ in range(_MANY_TERMS):
        # Newton's method in logarithms, where the tail is nearly a straight line.
        t = math.exp(log_t)
        tail = t_two_sided(t, dof)
        step = math.log(tail / two_sided) * tail / (2 * t * _density(t, dof))
        log_t += max(-2.0, min(step, 2.0))
        if abs(step) < 1e-13:
            break
    return math.exp(log_t)


def _density(t: float, dof: float) -> float:
    log_beta = math.lgamma(dof / 2) + math.lgamma(0.5) - math.lgamma((dof + 1) / 2)
    return math.exp(-log_beta - (dof + 1) / 2 * math.log1p(t * t / dof)) / math.sqrt(dof)


def f_above(ratio: float, dof_above: float, dof_below: float) -> float:
    """Probability that a quotient of two variances of equal populations is larger than `ratio`."""
    if not math.isfinite(ratio):
        return 0.0
    dof_below = min(dof_below, _MOST_DOF)
    return _incomplete_beta(dof_below / (dof_below + dof_above * ratio), dof_below / 2, dof_above / 2)


def digamma(x: float) -> float:
    """Derivative of the logarithm of the gamma function: the mean of the logarithm of a chi-square variable."""
    total = 0.0
    while x < 8:
        total -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    return total + math.log(x) - 0.5 / x - inverse * (1 / 12 - inverse * (1 / 120 - inverse / 252))


def trigamma(x: float) -> float:
    """Derivative of `digamma`: the variance of the logarithm of a chi-square variable."""
    total = 0.0
    while x < 8:
        total += 1 / (x * x)
        x += 1
    inverse = 1 / (x * x)
    return total + 1 / x + inverse / 2 + inverse / x * (1 / 6 - inverse * (1 / 30 - inverse / 42))


def inverse_trigamma(value: float) -> float:
    """The x with trigamma(x) = value > 0: trigamma falls, so the logarithm of x is bisected."""
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        if trigamma(math.exp(middle)) > value:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction where that converges fast."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / a * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Lentz's algorithm: numerator and denominator are kept as quotients of neighbours."""
    above, below = 1.0, 1.0 - (a + b) / (a + 1) * x
    below = 1.0 / (below if abs(below) > _TINY else _TINY)
    total = below
    for m in range(1, _MANY_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            below = 1.0 + term * below
            below = 1.0 / (below if abs(below) > _TINY else _TINY)
            above = 1.0 + term / above
            above = above if abs(above) > _TINY else _TINY
            change = above * below
            total *= change
        if abs(change - 1.0) < 1e-15:
            break
    return total
