"""How much runs of one cell differ: the error term of verdicts, from few runs and from what they share with others.

All on the logarithms of throughputs, so a standard deviation of 0.01 is 1%.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.analyse.distributions import digamma, f_above, inverse_trigamma, trigamma

_TYPICAL_SPREAD = 0.003
"""Standard deviation between runs: three of four among 87 submissions to MLPerf Training have less (median 0.14%)."""
_TYPICAL_WEIGHT = 3.0
"""In degrees of freedom: what the typical spread counts against the runs' own, where it is the larger."""
_LEAST_CELLS = 8
"""Fewer do not tell how the spread varies from cell to cell."""
_MOST_SHARED = 4.0
"""Degrees of freedom that other cells can give: a cell may be noisier than all of them."""
_UNEQUAL = 0.01
"""Two spreads that are so different by chance with this probability are not averaged."""
_UNLIKE = 0.05
"""A spread that is so large among the other cells with this probability is not like theirs."""
_FAR = 10.0
"""A run is far if its distance from all others is this many times the range of the others on a side."""
_LEAST_RANGE = 0.002
_LEAST_TO_LEAVE_OUT = 3
"""Of fewer runs on a side, nobody can tell which one is the odd one."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A variance of logarithms, and how well it is known."""

    variance: float
    dof: float


def pool_spread(groups: Sequence[Sequence[float]]) -> Spread:
    """Variance within the groups."""
    dof = sum(len(group) - 1 for group in groups)
    squares = sum(_squares(group) for group in groups)
    return Spread(variance=squares / dof if dof else 0.0, dof=float(dof))


def _squares(group: Sequence[float]) -> float:
    mean = statistics.fmean(group)
    return sum((value - mean) ** 2 for value in group)


def add_history(own: Spread, history: Sequence[Sequence[float]]) -> Spread:
    groups = []
    for group in history:
        far = find_far(group, ())
        groups.append(group if far is None else (*group[:far], *group[far + 1 :]))
    past = pool_spread([group for group in groups if len(group) > 1])
    is_noisier = own.dof > 0 < past.variance and f_above(own.variance / past.variance, own.dof, past.dof) < _UNEQUAL
    return own if past.dof == 0 or is_noisier else _share(own, past)


def _share(own: Spread, other: Spread) -> Spread:
    dof = own.dof + other.dof
    averaged = (own.dof * own.variance + other.dof * other.variance) / dof
    return Spread(variance=max(averaged, own.variance), dof=dof)


def find_unequal(a: Sequence[float], b: Sequence[float]) -> Spread | None:
    """Welch's error of the difference with its degrees of freedom, if one side is much noisier than the other."""
    if len(a) < 2 or len(b) < 2:
        return None
    spread_a, spread_b = pool_spread([a]), pool_spread([b])
    small, large = sorted((spread_a, spread_b), key=lambda spread: spread.variance)
    least = (_TYPICAL_SPREAD / 10) ** 2  # runs of equal printed values are not infinitely more exact
    if 2 * f_above(large.variance / max(small.variance, least), large.dof, small.dof) >= _UNEQUAL:
        return None
    part_a, part_b = spread_a.variance / len(a), spread_b.variance / len(b)
    total = part_a + part_b
    return Spread(variance=total, dof=total**2 / (part_a**2 / spread_a.dof + part_b**2 / spread_b.dof))


# -- a run far from the others -----------------------------------------------------------------------------------------


def find_far(own: Sequence[float], other: Sequence[float]) -> int | None:
    """The run of `own` that is far from every other run of both sides.

    Not far is one that agrees with a run of the other side: then there are two levels, and no run is the odd one.
    """
    if len(own) < _LEAST_TO_LEAVE_OUT:
        return None
    for place, value in enumerate(own):
        kept = (*own[:place], *own[place + 1 :])
        everyone = (*kept, *other)
        gap = min(abs(value - one) for one in everyone)
        if gap > _FAR * max(_range(kept), _range(other), _LEAST_RANGE) and gap > _range(everyone):
            return place
    return None


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values) if values else 0.0


# -- what other cells know ---------------------------------------------------------------------------------------------


def fit_shared(spreads: Sequence[Spread]) -> Spread | None:
    """What the cells say about the spread of a cell like them.

    Their variances follow a scaled F distribution if the true ones follow an inverse chi-square one; its two parameters
    come from the median and the quartiles of the logarithms, so that single wild cells have no weight.
    """
    if len(spreads) < _LEAST_CELLS:
        return None
    least = (_TYPICAL_SPREAD / 100) ** 2
    centred = [
        math.log(max(spread.variance, least)) - digamma(spread.dof / 2) + math.log(spread.dof / 2) for spread in spreads
    ]
    lower, middle, upper = statistics.quantiles(centred, n=4)
    within = statistics.fmean(trigamma(spread.dof / 2) for spread in spreads)
    between = ((upper - lower) / 1.349) ** 2 - within
    dof = min(2 * inverse_trigamma(between), _MOST_SHARED) if between > 0 else _MOST_SHARED
    return Spread(variance=math.exp(middle + digamma(dof / 2) - math.log(dof / 2)), dof=dof)


def borrow(own: Spread, shared: Spread) -> Spread:
    """A cell that is noisier than the others explain keeps its own spread."""
    if f_above(own.variance / shared.variance, own.dof, shared.dof) < _UNLIKE:
        return own
    dof = own.dof + shared.dof
    return Spread(variance=(own.dof * own.variance + shared.dof * shared.variance) / dof, dof=dof)


def widen(spread: Spread) -> float:
    """A few runs may agree by luck; the typical spread only counts where it is the larger one."""
    weight = _TYPICAL_WEIGHT + spread.dof
    return max(spread.variance, (_TYPICAL_WEIGHT * _TYPICAL_SPREAD**2 + spread.dof * spread.variance) / weight)


def logarithms(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(math.log(value) for value in values)
