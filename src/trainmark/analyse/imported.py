"""What is different for a log that somebody else wrote: time to train from evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from trainmark.store.rows import RunRow

_ANY_METRIC = ("eval_accuracy", "accuracy")
"""Names under which a log gives its one metric, whatever that is."""

_OTHER_NAMES = {"miou": ("mIoU",), "box_ap": ("bbox_mAP", "AP"), "mask_ap": ("mask_mAP",)}
"""What logs call the metrics of our targets."""


def is_imported(row: RunRow) -> bool:
    return row.dialect is not None


def time_to_stated_target(row: RunRow) -> float | None:
    """When the target was reached first, in seconds since the start; None where it was not or nobody says it.

    From the log's evaluations where they have times and the target is known; otherwise what the log itself says.
    """
    target = row.log.get("target")
    wanted, metric = (target.get("value"), target.get("metric")) if isinstance(target, dict) else (None, None)
    found = _evaluations(row, (*_ANY_METRIC, metric, *_OTHER_NAMES.get(str(metric), ())))
    if not _is_number(wanted) or all(time_s is None for _, time_s in found):
        stated = row.log.get("time_to_target_s")
        return float(stated) if _is_number(stated) else None
    # 0.759 and 75.9 are the same accuracy; 0.9 among 40 and 76 is 0.9 of a hundred.
    scale = 100 if any(value > 1 for value, _ in found) else 1
    threshold = wanted / 100 if wanted > 1 else wanted
    return next((time_s for value, time_s in found if time_s is not None and value / scale >= threshold), None)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _evaluations(row: RunRow, names: Sequence[object]) -> list[tuple[float, float | None]]:
    """Values and times under the first of the names that the log has: two metrics have two clocks and two scales."""
    for name in names:
        own = [evaluation for evaluation in row.evals if evaluation.get("metric") == name]
        found = [(value, e.get("time_s")) for e in own if (value := e.get("value")) is not None]
        if found:
            return [(float(value), None if time_s is None else float(time_s)) for value, time_s in found]
    return []
