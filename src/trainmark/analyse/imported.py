"""What is different for a log that somebody else wrote: cumulative means, and time to train from evaluations."""

from __future__ import annotations

import numpy as np

from trainmark.analyse.estimate import Estimate
from trainmark.store.rows import RunRow

CUMULATIVE = "cumulative"
_ANY_METRIC = ("accuracy", "eval_accuracy")
"""Names under which a log gives its one metric, whatever that is."""


def is_imported(row: RunRow) -> bool:
    return row.dialect is not None


def estimate_cumulative(row: RunRow) -> Estimate:
    """Each record is the mean since the start (or since the epoch began): only the last one of each stretch counts.

    There is no interval: the records are not separate measurements.
    """
    ends = _ends_of_stretches(row)
    weights = np.nan_to_num(row.steps[ends], nan=1.0) + 1.0 if len(row.steps) else np.ones(len(ends))
    value = float((weights * row.samples[ends]).sum() / (weights * row.seconds[ends]).sum())
    return Estimate(
        value=value,
        ci95=None,
        num_steps=len(row.seconds),
        num_warmup_steps=0,
        method=CUMULATIVE,
        std_error=None,
        dof=None,
    )


def _ends_of_stretches(row: RunRow) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Indices of the records after which the number of the iteration falls, and of the last one."""
    falls = np.flatnonzero(np.diff(row.steps) < 0) if len(row.steps) else np.empty(0, dtype=np.intp)
    return np.append(falls, len(row.seconds) - 1).astype(np.intp)


def time_to_stated_target(row: RunRow) -> float | None:
    """When the target was reached first, in seconds since the start; None where it was not or nobody says it."""
    target = row.log.get("target")
    if not isinstance(target, dict):
        return None
    wanted, metric = target.get("value"), target.get("metric")
    if not isinstance(wanted, (int, float)) or isinstance(wanted, bool):
        return None
    for evaluation in row.evals:
        value, time_s = evaluation.get("value"), evaluation.get("time_s")
        is_metric = evaluation.get("metric") in (metric, *_ANY_METRIC)
        if is_metric and value is not None and time_s is not None and _as_fraction(value) >= _as_fraction(wanted):
            return float(time_s)
    return None


def _as_fraction(value: float) -> float:
    """0.759 and 75.9 are the same accuracy."""
    return value / 100 if value > 1 else value
