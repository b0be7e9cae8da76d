"""How many times faster one cell is than another, and how much of that is left per device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.interval import log_interval
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Quotient of two throughputs."""

    value: float
    """Case over base."""

    ci95: tuple[float, float] | None
    """95% interval; None when that of either side is unknown."""


def base_place(runs: Sequence[RunRow]) -> tuple[int, int, str]:
    """Of lines that compare, the one with the lowest place is divided by, in whatever order they come.

    The fewest devices, then the fewest nodes, then the line whose run is first by name.
    """
    first = runs[0]
    return first.devices or 0, first.nodes or 0, min(run.id for run in runs if run.outcome == "ok")


def speedup(case: Estimate, base: Estimate) -> Ratio:
    """Throughput of `case` over that of `base`, measured independently.

    On the logarithmic scale a quotient is a difference, so this is Welch's interval of a difference of two means with
    Satterthwaite's degrees of freedom.
    """
    value = case.value / base.value
    if case.std_error is None or case.dof is None or base.std_error is None or base.dof is None:
        return Ratio(value=value, ci95=None)
    variance_case = (case.std_error / case.value) ** 2
    variance_base = (base.std_error / base.value) ** 2
    variance = variance_case + variance_base
    weight = variance_case**2 / case.dof + variance_base**2 / base.dof
    dof = variance**2 / weight if weight > 0 else math.inf
    return Ratio(value=value, ci95=log_interval(value, math.sqrt(variance), dof))


def efficiency(case: Estimate, base: Estimate, num_devices_ratio: float) -> Ratio:
    """Speed-up over the speed-up that `num_devices_ratio` times the devices would give at best."""
    ratio = speedup(case, base)
    if ratio.ci95 is None:
        return Ratio(value=ratio.value / num_devices_ratio, ci95=None)
    low, high = ratio.ci95
    return Ratio(value=ratio.value / num_devices_ratio, ci95=(low / num_devices_ratio, high / num_devices_ratio))
