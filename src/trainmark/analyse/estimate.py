"""A measured throughput with its 95% interval, and the ratio of two of them. numpy is not imported: `show` starts fast.

Intervals are made on the logarithmic scale: a rate and a ratio of rates are positive, and the interval of 1/x should be
the inverse of the interval of x. Both hold on the logarithmic scale and neither on the plain one. For an interval of
±5% the ends of the two differ by 0.13%.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trainmark.messages.doubts import within_one_run
from trainmark.messages.message import Message

TOO_NOISY = 0.25
"""A wider interval, as a share of the value, is not a result."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Throughput of one run, or of several pooled runs of one cell."""

    value: float
    """Samples per second of all devices together: sum of samples over sum of seconds, never a mean of rates."""

    ci95: tuple[float, float] | None
    """Interval that covers the true throughput in 95 of 100 measurements.

    None if there are too few steps, or if `doubts` say why no interval can be trusted.
    """

    num_steps: int
    """Number of steady-state steps, from which `value` is computed."""

    num_warmup_steps: int
    """Number of steps before the steady state, which are excluded."""

    method: str
    """How `ci95` was computed: `ar-t` (one run), `runs-t` or `runs-within` (pooled), `none` (no interval)."""

    std_error: float | None
    """Standard error of `value`, in samples per second; None if `ci95` is None."""

    dof: float | None
    """Degrees of freedom of `std_error`, for Student's t; infinite if the error is known to be zero."""

    spread: tuple[float, float] | None = None
    """The rates that were seen: of the middle 90% of the steps, or from the slowest run to the fastest."""

    doubts: tuple[Message, ...] = ()
    """What was found in the series and limits what the interval says: two levels, a drift, rare stalls, ..."""

    @property
    def relative_half_width(self) -> float | None:
        """Half of the interval divided by the value: the x of "± x"."""
        if self.ci95 is None:
            return None
        low, high = self.ci95
        return (high - low) / 2 / self.value

    @property
    def is_too_noisy(self) -> bool:
        """Whether the interval is so wide that `value` must not be shown as a result, only `spread`."""
        return self.relative_half_width is not None and self.relative_half_width > TOO_NOISY

    @property
    def is_refused(self) -> bool:
        """Whether there is no interval because of what `doubts` name."""
        return self.ci95 is None and bool(self.doubts)

    @property
    def is_within_one_run(self) -> bool:
        """Whether the interval says nothing about how much another run would differ."""
        return any(doubt.code == within_one_run.code for doubt in self.doubts)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "doubts": [doubt.to_json() for doubt in self.doubts]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Estimate:
        """Also of a version that knew neither `spread` nor `doubts`."""
        pairs = {name: tuple(pair) if (pair := value.get(name)) is not None else None for name in ("ci95", "spread")}
        doubts = tuple(Message.from_json(doubt) for doubt in value.get("doubts", ()))
        return cls(**{**value, **pairs, "doubts": doubts})


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Quotient of two throughputs."""

    value: float
    """Case divided by baseline."""

    ci95: tuple[float, float] | None
    """95% interval; None if either side has none."""


def speedup(case: Estimate, baseline: Estimate) -> Ratio:
    """Throughput of `case` divided by that of `baseline`, measured independently.

    On the logarithmic scale a quotient is a difference, so this is Welch's interval of a difference of two means with
    Satterthwaite's degrees of freedom.
    """
    value = case.value / baseline.value
    if case.std_error is None or case.dof is None or baseline.std_error is None or baseline.dof is None:
        return Ratio(value=value, ci95=None)
    variance_case = (case.std_error / case.value) ** 2
    variance_baseline = (baseline.std_error / baseline.value) ** 2
    variance = variance_case + variance_baseline
    weight = variance_case**2 / case.dof + variance_baseline**2 / baseline.dof
    dof = variance**2 / weight if weight > 0 else math.inf
    return Ratio(value=value, ci95=log_interval(value, math.sqrt(variance), dof))


def efficiency(case: Estimate, baseline: Estimate, num_devices_ratio: float) -> Ratio:
    """Speed-up divided by the best possible one with `num_devices_ratio` times the devices."""
    ratio = speedup(case, baseline)
    if ratio.ci95 is None:
        return Ratio(value=ratio.value / num_devices_ratio, ci95=None)
    low, high = ratio.ci95
    return Ratio(value=ratio.value / num_devices_ratio, ci95=(low / num_devices_ratio, high / num_devices_ratio))


# An interval wider than a factor e^20 either way says nothing more, and must stay finite to be written as JSON.
_MAX_LOG_HALF_WIDTH = 20.0


def log_interval(value: float, relative_error: float, dof: float) -> tuple[float, float]:
    """The 95% interval of `value`, whose standard error is `relative_error * value` with `dof` degrees of freedom."""
    if relative_error == 0.0:
        return value, value
    half_width = min(quantile_975(dof) * relative_error, _MAX_LOG_HALF_WIDTH)
    return value * math.exp(-half_width), value * math.exp(half_width)


_TAIL = 0.025
_NORMAL = 1.959963984540054
_MANY = 400.0
_FEW = 3.0
_LEAST = 0.1
"""Fewer degrees of freedom have a quantile above 1e12, which says no more."""
_MAX_ITERATIONS = 50


@lru_cache(maxsize=4096)
def quantile_975(dof: float) -> float:
    """The 97.5% quantile of Student's t with `dof` degrees of freedom.

    scipy has it, but importing scipy.special takes 0.3 s, and all of `show` should take less than one. From 400 degrees
    of freedom up it is the expansion about the normal quantile, exact to 1e-13; below, Newton's method on the tail
    probability, which is summed as a series of positive terms. A test compares it with scipy.
    """
    if dof >= _MANY:
        return _expand(dof)
    dof = max(dof, _LEAST)
    # In logarithms the tail is nearly a straight line, so Newton's method needs three or four iterations.
    log_t = math.log(_expand(dof)) if dof >= _FEW else _far_tail(dof)
    for _ in range(_MAX_ITERATIONS):
        t = math.exp(log_t)
        tail = _tail(t, dof)
        change = math.log(tail / _TAIL) * tail / (t * _density(t, dof))
        log_t += change
        if abs(change) < 1e-14:
            break
    return math.exp(log_t)


def _expand(dof: float) -> float:
    """Cornish-Fisher expansion: four terms in 1 / dof."""
    z, z2 = _NORMAL, _NORMAL**2
    terms = (
        z * (z2 + 1) / 4,
        z * (3 + z2 * (16 + 5 * z2)) / 96,
        z * (-15 + z2 * (17 + z2 * (19 + 3 * z2))) / 384,
        z * (-945 + z2 * (-1920 + z2 * (1482 + z2 * (776 + 79 * z2)))) / 92160,
    )
    return z + sum(term / dof**power for power, term in enumerate(terms, start=1))


def _far_tail(dof: float) -> float:
    """Logarithm of the t at which the first term of the tail's series is the tail: never below the quantile."""
    return (dof / 2 * math.log(dof) - math.log(dof) - _log_beta(dof) - math.log(_TAIL)) / dof


def _log_beta(dof: float) -> float:
    """Logarithm of the beta function of dof / 2 and 1 / 2."""
    return math.lgamma(dof / 2) + math.lgamma(0.5) - math.lgamma((dof + 1) / 2)


def _density(t: float, dof: float) -> float:
    return math.exp(-_log_beta(dof) - (dof + 1) / 2 * math.log1p(t * t / dof)) / math.sqrt(dof)


def _tail(t: float, dof: float) -> float:
    """Probability above t: summed from outside for few degrees of freedom, else one half minus the part below t."""
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
