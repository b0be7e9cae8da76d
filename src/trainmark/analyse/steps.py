"""The steps of one run, analysed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainmark.analyse.analysis import Analysis
from trainmark.analyse.checks import check_run
from trainmark.analyse.cumulative import estimate_cumulative
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.rates import last_rate, mean_of_rates, median_rate
from trainmark.analyse.throughput import NO_METHOD, estimate_throughput
from trainmark.analyse.training import speeds
from trainmark.analyse.traps import warn
from trainmark.store.rows import RunRow


def analyse_steps(row: RunRow) -> Analysis:
    """Of any run: one whose numbers are beyond reckoning has no speed and says so, and hides none beside it."""
    try:
        return _analyse(row)
    except (ArithmeticError, TypeError, ValueError) as error:
        why = f"its numbers cannot be analysed: {type(error).__name__} {error}"
        return Analysis(
            estimate=None,
            num_records=len(row.seconds),
            median=None,
            mean_of_rates=None,
            last=None,
            speeds=None,
            warnings=(warn("not-analysed", why),),
        )


def _analyse(row: RunRow) -> Analysis:
    has_speed = row.outcome == "ok" and len(row.seconds) > 0
    estimate = _estimate(row) if has_speed else None
    return Analysis(
        estimate=estimate,
        num_records=len(row.seconds),
        median=median_rate(row.seconds, row.samples) if has_speed else None,
        mean_of_rates=mean_of_rates(row.seconds, row.samples) if has_speed else None,
        last=last_rate(row.seconds, row.samples) if has_speed else None,
        speeds=speeds(row),
        warnings=tuple(check_run(row, estimate)),
    )


def _estimate(row: RunRow) -> Estimate:
    if row.log.get("is_cumulative"):
        return estimate_cumulative(row)
    estimate = estimate_throughput(row.seconds, row.samples, restarts=_find_restarts(row))
    return _without_certainty(estimate) if row.dialect is not None else estimate


def _without_certainty(estimate: Estimate) -> Estimate:
    """A log that always prints the same few digits knows its speed no better than these."""
    if estimate.std_error != 0:
        return estimate
    return replace(estimate, ci95=None, std_error=None, dof=None, method=NO_METHOD)


def _find_restarts(row: RunRow) -> list[int]:
    found = np.searchsorted(row.steps, sorted(row.resumed_steps), side="right")
    return [int(index) for index in np.unique(found) if 0 < index < len(row.steps)]
