"""What is different for a log that somebody else wrote: time to train from evaluations."""

from __future__ import annotations

from trainmark.store.rows import RunRow

_ANY_METRIC = ("accuracy", "eval_accuracy")
"""Names under which a log gives its one metric, whatever that is."""


def is_imported(row: RunRow) -> bool:
    return row.dialect is not None


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
