"""The 97.5% quantile of Student's t, for any number of degrees of freedom.

scipy has it, but to load scipy.special takes 0.3 s, and the whole of `show` may take one. For many degrees of freedom
it is the expansion about the normal quantile, exact to 1e-13 from 400 up; below, Newton's method on the tail, with its
probability summed as a series of positive terms. A test compares it with scipy.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TAIL = 0.025
_NORMAL = 1.959963984540054
_MANY = 400.0
_FEW = 3.0
_LEAST = 0.1
"""Fewer have a quantile beyond 1e12, which says no more."""
_MAX_TURNS = 50


@lru_cache(maxsize=4096)
def quantile_975(dof: float) -> float:
    """The value that a Student's t of `dof` degrees of freedom exceeds once in 40 times."""
    if dof >= _MANY:
        return _expand(dof)
    dof = max(dof, _LEAST)
    # In logarithms the tail is nearly a straight line, so Newton's method needs three or four turns.
    log_t = math.log(_expand(dof)) if dof >= _FEW else _far_tail(dof)
    for _ in range(_MAX_TURNS):
        t = math.exp(log_t)
        tail = _tail(t, dof)
        change = math.log(tail / _TAIL) * tail / (t * _density(t, dof))
        log_t += change
        if abs(change) < 1e-14:
            break
    return math.exp(log_t)


def _expand(dof: float) -> float:
    """Fisher and Cornish: four terms in 1 / dof."""
    z, z2 = _NORMAL, _NORMAL**2
    terms = (
        z * (z2 + 1) / 4,
        z * (3 + z2 * (16 + 5 * z2)) / 96,
        z * (-15 + z2 * (17 + z2 * (19 + 3 * z2))) / 384,
        z * (-945 + z2 * (-1920 + z2 * (1482 + z2 * (776 + 79 * z2)))) / 92160,
    )
    return z + sum(term / dof**power for power, term in enumerate(terms, start=1))


def _far_tail(dof: float) -> float:
    """Logarithm of where the first term of the tail's series is the tail: never short of the quantile."""
    return (dof / 2 * math.log(dof) - math.log(dof) - _log_beta(dof) - math.log(_TAIL)) / dof


def _log_beta(dof: float) -> float:
    """Of dof / 2 and 1 / 2."""
    return math.lgamma(dof / 2) + math.lgamma(0.5) - math.lgamma((dof + 1) / 2)


def _density(t: float, dof: float) -> float:
    return math.exp(-_log_beta(dof) - (dof + 1) / 2 * math.log1p(t * t / dof)) / math.sqrt(dof)


def _tail(t: float, dof: float) -> float:
    """Probability above t: from outside where few degrees of freedom make it long, else a half less what is inside."""
    outside = dof / (dof + t * t)
    if dof < _FEW:
        # One step from the density: the series of the incomplete beta function in `outside`.
        return t * _density(t, dof) / dof * _sum_series((dof + 1) / 2, dof / 2 + 1, outside)
    return 0.5 - t * _density(t, dof) * _sum_series((dof + 1) / 2, 1.5, 1 - outside)


def _sum_series(above: float, below: float, x: float) -> float:
    """1 + above / below x + above (above + 1) / (below (below + 1)) x^2 + ..."""
    total, term, n = 1.0, 1.0, 0
    while term > 1e-17 * total:
        term *= (above + n) / (below + n) * x
        total += term
        n += 1
    return total
