"""Checks that a completed run really trained: a run that did not has no speed. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MIN_LOSSES = 20
"""Fewer losses are not judged."""
_CLEAR_RISE = 0.05
_CLEAR_ERRORS = 3.0


@dataclass(frozen=True, kw_only=True)
class LossTrend:
    """The loss in the first and the last quarter of the steps: a few numbers, which ranks can exchange."""

    begin: float
    end: float
    error: float
    """Standard error of their difference."""
    is_still: bool
    """Exactly the same at every step."""

    @classmethod
    def of(cls, losses: Sequence[float]) -> LossTrend | None:
        """None for too few losses."""
        if len(losses) < _MIN_LOSSES:
            return None
        quarter = len(losses) // 4
        first, last = losses[:quarter], losses[-quarter:]
        error = math.hypot(*(statistics.stdev(part) / math.sqrt(len(part)) for part in (first, last)))
        begin, end = statistics.fmean(first), statistics.fmean(last)
        return cls(begin=begin, end=end, error=error, is_still=len(set(losses)) == 1)

    @classmethod
    def mean(cls, trends: Sequence[LossTrend]) -> LossTrend | None:
        """Over the ranks: the loss of the global batch is the mean of theirs, and less noisy than any of them."""
        if not trends:
            return None
        return cls(
            begin=statistics.fmean(trend.begin for trend in trends),
            end=statistics.fmean(trend.end for trend in trends),
            error=math.hypot(*(trend.error for trend in trends)) / len(trends),
            is_still=all(trend.is_still for trend in trends),
        )


def why_not_training(trend: LossTrend) -> str | None:
    """For a training on real data from its first step on: the loss must have fallen."""
    if trend.end < trend.begin:
        return None
    return (
        f"the loss did not fall: {trend.begin:.4g} at first, {trend.end:.4g} at last; "
        "check the data and the learning rate"
    )


def why_not_plausible(trend: LossTrend) -> str | None:
    """For a measurement of speed, whose learning rate may be near zero: the loss changed and did not explode."""
    if trend.is_still:
        return f"the loss was {trend.begin:.4g} at every step, to the last digit: nothing is being trained"
    if trend.end - trend.begin > max(_CLEAR_RISE * abs(trend.begin), _CLEAR_ERRORS * trend.error):
        return f"the loss rose from {trend.begin:.4g} to {trend.end:.4g}; try a lower learning rate"
    return None


def advise_on_bad_loss(*, rate: float, peak: float, recipe_peak: float, is_fp16: bool) -> str:
    """A learning rate to try: the recipe's own if a higher one was used, else a tenth."""
    lower = recipe_peak if peak > recipe_peak else peak / 10
    whose = "the recipe's own" if peak > recipe_peak else "a tenth"
    used = f"the learning rate was {rate:.3g}" + ("" if math.isclose(rate, peak) else f" on its way to {peak:.3g}")
    advice = f"{used}: try --lr {lower:.3g} ({whose})"
    if is_fp16 and peak <= recipe_peak:
        return f"fp16 holds nothing above 65504: try --precision bf16; else {advice}"
    return advice


def why_no_metric(metrics: Mapping[str, float]) -> str | None:
    """All our metrics are fractions."""
    for name, value in metrics.items():
        if not 0 <= value <= 1:
            return f"the evaluation gave {name} = {value}, which is no fraction between 0 and 1"
    return None
