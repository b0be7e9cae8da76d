"""Faster, slower, same or inconclusive: the verdict on two sides of one cell, or of many cells at once.

The error term is the spread between runs: two runs of one commit differ by more than the interval within a run says.
Everything is done on the logarithms of the runs' throughputs, so that A against B is the mirror image of B against A.

* faster, slower: the 95% interval of the ratio excludes 1 and the ratio is outside the tolerance. Of many cells, the
  Benjamini-Hochberg procedure keeps the share of false ones among them below 5%.
* same: the 90% interval lies inside the tolerance (two one-sided tests at 5%). A small difference is never called
  "same" because it could not be seen.
* inconclusive: all else, with the number of runs that would decide.

Few runs know their spread badly, so it is shared: with the cell's own history, which never makes the spread of today's
runs smaller; with the other cells of the comparison, if there are enough (empirical Bayes, as limma does for genes),
unless the cell is noisier than they explain; and with a typical spread, which only ever widens an interval.
docs/guides/compare.md has the error rates on a corpus of real repeated runs.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainmark.analyse.distributions import t_quantile, t_two_sided
from trainmark.analyse.estimate import Ratio
from trainmark.analyse.spread import (
    Spread,
    add_history,
    borrow,
    find_far,
    find_unequal,
    fit_shared,
    logarithms,
    pool_spread,
    widen,
)
from trainmark.messages.comparison import (
    chance_among_many,
    far_run,
    is_faster,
    is_same,
    is_slower,
    no_runs,
    noise_hides,
    one_run_each,
)
from trainmark.messages.message import Message

Verdict = Literal["faster", "slower", "same", "inconclusive", "not_comparable"]
DEFAULT_TOLERANCE = 0.01
FALSE_SHARE = 0.05
"""Of the differences that are reported, over all cells; of one cell, the probability of a false one."""

_MOST_RUNS = 100


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The throughputs of the runs of one cell, one number > 0 per run."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    history: tuple[tuple[float, ...], ...] = ()
    """Other runs of this cell on this machine, in groups of one identity: for their spread, not for their level."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    verdict: Verdict
    ratio: Ratio | None
    """B over A, of the geometric means of the runs; None if a side has no run."""
    why: Message
    runs: tuple[int, int]
    """Counted, of A and of B: without a run that was left out."""
    more_runs: int | None
    """On each side, after which the verdict would no longer be inconclusive if nothing else changes; None if there is a
    verdict, or if 100 would not do."""
    spread: float | None
    """Relative standard deviation between runs, as used for the interval."""
    error: float | None = None
    """Standard error of the logarithm of the ratio; None if there is no interval."""
    dof: float | None = None
    """Degrees of freedom of `error`."""
    ci90: tuple[float, float] | None = None
    """Of the ratio: each end is a one-sided 95% limit, for a question that has a direction."""
    far_a: int | None = None
    """Index of the run of A that was left out, far from all others."""
    far_b: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Difference:
    """Of one cell, as far as it can be said without the other cells."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    far: tuple[int | None, int | None]
    gap: float | None
    spread: Spread
    welch: Spread | None
    """The squared error of the difference where the sides have unequal spreads."""

    @property
    def value(self) -> float:
        return statistics.fmean(self.b) - statistics.fmean(self.a)


@dataclass(frozen=True, kw_only=True)
class _Test:
    difference: float
    error: float
    dof: float
    spread: float

    @property
    def p_value(self) -> float:
        return t_two_sided(self.difference / self.error, self.dof)

    def half_width(self, two_sided: float) -> float:
        return t_quantile(two_sided, self.dof) * self.error


def judge(
    a: Sequence[float],
    b: Sequence[float],
    *,
    history: Sequence[Sequence[float]] = (),
    tolerance: float = DEFAULT_TOLERANCE,
) -> Judgement:
    """One cell by itself."""
    sides = Sides(a=tuple(a), b=tuple(b), history=tuple(tuple(group) for group in history))
    return judge_cells([sides], tolerance=tolerance)[0]


def judge_cells(cells: Sequence[Sides], *, tolerance: float = DEFAULT_TOLERANCE) -> tuple[Judgement, ...]:
    """All cells of one comparison: they share their spread, and the false discovery rate is that of all together."""
    differences = [_measure(sides) for sides in cells]
    shared = fit_shared([found.spread for found in differences if found is not None and found.spread.dof > 0])
    tests = [None if found is None else _test(found, shared) for found in differences]
    level = _find_level([test.p_value for test in tests if test is not None])
    return tuple(
        _decide(sides, found, test, level=level, tolerance=tolerance, num_cells=len(cells))
        for sides, found, test in zip(cells, differences, tests, strict=True)
    )


# -- one cell ----------------------------------------------------------------------------------------------------------


def _measure(sides: Sides) -> _Difference | None:
    """None if a side has no run."""
    a, b = logarithms(sides.a), logarithms(sides.b)
    if not a or not b:
        return None
    far_a, far_b = find_far(a, b), find_far(b, a)
    place = far_a if far_a is not None else far_b
    own, others = (a, b) if far_a is not None else (b, a)
    gap = None
    if place is not None:
        far_b = None if far_a is not None else far_b
        kept = (*own[:place], *own[place + 1 :])
        gap = math.expm1(own[place] - statistics.fmean(kept))
        a, b = (kept, others) if far_a is not None else (others, kept)
    return _Difference(
        a=a,
        b=b,
        far=(far_a, far_b),
        gap=gap,
        spread=add_history(pool_spread([a, b]), [logarithms(group) for group in sides.history]),
        welch=find_unequal(a, b),
    )


# -- all cells ---------------------------------------------------------------------------------------------------------


def _test(found: _Difference, shared: Spread | None) -> _Test | None:
    """None if the spread is unknown: other cells never replace the runs of the cell itself."""
    if found.spread.dof == 0:
        return None
    spread = found.spread if shared is None else borrow(found.spread, shared)
    variance = widen(spread)
    squared_error = variance * (1 / len(found.a) + 1 / len(found.b))
    dof = spread.dof
    if found.welch is not None:
        squared_error, dof = max(squared_error, found.welch.variance), min(dof, found.welch.dof)
    return _Test(difference=found.value, error=math.sqrt(squared_error), dof=dof, spread=math.sqrt(variance))


def _find_level(p_values: Sequence[float]) -> float:
    """Benjamini and Hochberg's: a cell differs if its p value is not above this."""
    ranked = sorted(p_values)
    steps = [FALSE_SHARE * rank / len(ranked) for rank in range(1, len(ranked) + 1)]
    passed = [step for p_value, step in zip(ranked, steps, strict=True) if p_value <= step]
    return passed[-1] if passed else (steps[0] if steps else FALSE_SHARE)


# -- the verdict -------------------------------------------------------------------------------------------------------


def _decide(
    sides: Sides, found: _Difference | None, test: _Test | None, *, level: float, tolerance: float, num_cells: int
) -> Judgement:
    if found is None:
        empty = "A" if not sides.a else "B"
        return _conclude(sides, None, None, "inconclusive", no_runs(side=empty, why=None), None)
    if test is None:
        return _conclude(sides, found, None, "inconclusive", one_run_each(), 2)
    low, high = (math.expm1(test.difference + sign * test.half_width(0.05)) for sign in (-1, 1))
    change, limit = math.expm1(test.difference), math.log1p(tolerance)
    is_outside = abs(test.difference) >= limit
    if is_outside and test.p_value <= level:
        if change > 0:
            return _conclude(sides, found, test, "faster", is_faster(change=change, low=low, high=high), None)
        return _conclude(sides, found, test, "slower", is_slower(change=change, low=low, high=high), None)
    narrow = test.half_width(0.1)
    is_inside = abs(test.difference) + narrow < limit
    if found.gap is not None and (is_inside or not is_outside):
        side_name = "A" if found.far[0] is not None else "B"
        return _conclude(sides, found, test, "inconclusive", far_run(side=side_name, gap=found.gap), 2)
    if is_inside:
        ends = {"low": math.expm1(test.difference - narrow), "high": math.expm1(test.difference + narrow)}
        return _conclude(sides, found, test, "same", is_same(tolerance=100 * tolerance, **ends), None)
    more = _count_more_runs(found, test, level=level, limit=limit)
    if is_outside and test.p_value <= FALSE_SHARE:
        why = chance_among_many(change=change, cells=num_cells, more=more)
    else:
        why = noise_hides(low=low, high=high, spread=test.spread, more=more)
    return _conclude(sides, found, test, "inconclusive", why, more)


def _conclude(
    sides: Sides,
    found: _Difference | None,
    test: _Test | None,
    verdict: Verdict,
    why: Message,
    more: int | None,
) -> Judgement:
    if found is None:
        return Judgement(
            verdict=verdict, ratio=None, why=why, runs=(len(sides.a), len(sides.b)), more_runs=more, spread=None
        )
    value = math.exp(found.value)
    interval, narrow = (None if test is None else _interval(value, test, outside) for outside in (0.05, 0.1))
    return Judgement(
        verdict=verdict,
        ratio=Ratio(value=value, ci95=interval),
        why=why,
        runs=(len(found.a), len(found.b)),
        more_runs=more,
        spread=None if test is None else test.spread,
        error=None if test is None else test.error,
        dof=None if test is None else test.dof,
        ci90=narrow,
        far_a=found.far[0],
        far_b=found.far[1],
    )


def _interval(value: float, test: _Test, outside: float) -> tuple[float, float]:
    half = min(test.half_width(outside), 20.0)  # as estimate.log_interval: finite, to be written as JSON
    return value * math.exp(-half), value * math.exp(half)


def _count_more_runs(found: _Difference, test: _Test, *, level: float, limit: float) -> int | None:
    """How many more runs on each side would give a verdict, if ratio and spread stay as they are."""
    size, inverse_runs = abs(test.difference), 1 / len(found.a) + 1 / len(found.b)

    def would_decide(more: int) -> bool:
        shrunk = math.sqrt((1 / (len(found.a) + more) + 1 / (len(found.b) + more)) / inverse_runs)
        error, dof = test.error * shrunk, test.dof + 2 * more
        is_apart = size >= limit and size > t_quantile(level, dof) * error
        return is_apart or size + t_quantile(0.1, dof) * error < limit

    return bisect.bisect_left(range(_MOST_RUNS + 1), True, lo=1, key=would_decide) if would_decide(_MOST_RUNS) else None
