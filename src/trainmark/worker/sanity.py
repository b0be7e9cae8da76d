"""Correctness gates speed: what makes a run that went through a failed one. Pure functions of what it left."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

_MIN_LOSSES = 20
"""Fewer tell nothing."""
_CLEAR_RISE = 0.05
_CLEAR_ERRORS = 3.0


def why_not_training(losses: Sequence[float]) -> str | None:
    """Of a training on real data, from its first step on: the loss must have fallen."""
    if len(losses) < _MIN_LOSSES:
        return None
    first, last = _ends(losses)
    begin, end = statistics.fmean(first), statistics.fmean(last)
    if end < begin:
        return None
    return f"the loss did not fall: {begin:.4g} at first, {end:.4g} at last; check the data and the learning rate"


def why_not_plausible(losses: Sequence[float]) -> str | None:
    """Of a measurement of speed, whose learning rate may still be near zero: the loss moved, and did not blow up."""
    if len(losses) < _MIN_LOSSES:
        return None
    if len(set(losses)) == 1:
        return f"the loss was {losses[0]:.4g} at every step, to the last digit: nothing is being trained"
    first, last = _ends(losses)
    begin, end = statistics.fmean(first), statistics.fmean(last)
    error = math.hypot(*(statistics.stdev(part) / math.sqrt(len(part)) for part in (first, last)))
    if end - begin > max(_CLEAR_RISE * abs(begin), _CLEAR_ERRORS * error):
        return f"the loss rose from {begin:.4g} to {end:.4g}; try a lower learning rate"
    return None


def advise_on_bad_loss(*, rate: float, peak: float, recipe_peak: float, is_fp16: bool) -> str:
    """A rate to try: the recipe's own where a higher one was asked for, else a tenth."""
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


def _ends(losses: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    quarter = len(losses) // 4
    return losses[:quarter], losses[-quarter:]
