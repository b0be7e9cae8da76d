"""Checks that a completed run really trained: a run that did not has no speed. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainmark.messages.message import Message
from trainmark.messages.training import (
    loss_constant,
    loss_did_not_fall,
    loss_rose,
    metric_out_of_range,
    try_bf16,
    try_lower_rate,
)

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


def why_not_training(trend: LossTrend) -> Message | None:
    """For a training on real data from its first step on: the loss must have fallen."""
    if trend.end < trend.begin:
        return None
    return loss_did_not_fall(first=trend.begin, last=trend.end)


def why_not_plausible(trend: LossTrend) -> Message | None:
    """For a measurement of speed, whose learning rate may be near zero: the loss changed and did not explode."""
    if trend.is_still:
        return loss_constant(loss=trend.begin)
    if trend.end - trend.begin > max(_CLEAR_RISE * abs(trend.begin), _CLEAR_ERRORS * trend.error):
        return loss_rose(first=trend.begin, last=trend.end)
    return None


def advise_on_bad_loss(*, rate: float, peak: float, recipe_peak: float, is_fp16: bool) -> Message:
    """A learning rate to try: the recipe's own if a higher one was used, else a tenth."""
    lower, whose = (recipe_peak, "the recipe's own") if peak > recipe_peak else (peak / 10, "a tenth")
    advice = try_lower_rate(rate=rate, peak=None if math.isclose(rate, peak) else peak, lower=lower, whose=whose)
    return try_bf16(advice=advice) if is_fp16 and peak <= recipe_peak else advice


def why_no_metric(metrics: Mapping[str, float]) -> Message | None:
    """All our metrics are fractions."""
    for name, value in metrics.items():
        if not 0 <= value <= 1:
            return metric_out_of_range(metric=name, value=str(value))
    return None
