"""What a whole training tells besides the speed of its steps: when the target was reached, and what the pauses cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from trainmark.store.rows import RunRow

_ANY_METRIC = ("eval_accuracy", "accuracy")
"""Names under which a log reports its only metric, whatever it is."""

_OTHER_NAMES = {"miou": ("mIoU",), "box_ap": ("bbox_mAP", "AP"), "mask_ap": ("mask_mAP",)}
"""Names of our target metrics in other people's logs."""


def time_to_train(row: RunRow) -> float | None:
    """Seconds from the first step to the end of the first evaluation that reached every target, pauses included."""
    if not row.until_target:
        return _time_to_stated_target(row)
    reached: dict[float, set[str]] = {}
    for evaluation in row.evals:
        time_s, metric, value = evaluation.get("time_s"), evaluation.get("metric"), evaluation.get("value")
        if (
            time_s is not None
            and metric in row.until_target
            and value is not None
            and value >= row.until_target[metric]
        ):
            reached.setdefault(time_s, set()).add(metric)
    return next((time_s for time_s, metrics in sorted(reached.items()) if metrics == set(row.until_target)), None)


def epochs_to_train(row: RunRow) -> float | None:
    """Epochs until the target was reached; None if it was not, or if the evaluation does not tell its epoch."""
    time_s = time_to_train(row)
    reached = (found.get("epoch") for found in row.evals if time_s is not None and found.get("time_s") == time_s)
    return next((float(epoch) for epoch in reached if _is_number(epoch)), None)


def speeds(row: RunRow) -> dict[str, float] | None:
    """Samples over seconds of the whole training, computed three ways; None for a run without pauses."""
    steps_s, samples = float(row.seconds.sum()), float(row.samples.sum())
    if not row.pauses or row.outcome != "ok" or steps_s <= 0:
        return None
    pauses_s = sum(row.pauses.values())
    return {
        "raw": samples / (steps_s + pauses_s),
        "without_evaluation": samples / (steps_s + pauses_s - row.pauses.get("eval", 0.0)),
        "pure_step": samples / steps_s,
    }


def _time_to_stated_target(row: RunRow) -> float | None:
    """For an imported log: seconds from the start until the target was first reached; None if it was not or is unknown.

    Computed from the log's evaluations if they have times and the target is known, otherwise what the log itself says.
    """
    target = row.log.get("target")
    wanted, metric = (target.get("value"), target.get("metric")) if isinstance(target, dict) else (None, None)
    found = _evaluations(row, (*_ANY_METRIC, metric, *_OTHER_NAMES.get(str(metric), ())))
    if not _is_number(wanted) or all(time_s is None for _, time_s in found):
        stated = row.log.get("time_to_target_s")
        return float(stated) if _is_number(stated) else None
    # 0.759 and 75.9 are the same accuracy; 0.9 among 40 and 76 means 0.9%.
    scale = 100 if any(value > 1 for value, _ in found) else 1
    threshold = wanted / 100 if wanted > 1 else wanted
    return next((time_s for value, time_s in found if time_s is not None and value / scale >= threshold), None)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _evaluations(row: RunRow, names: Sequence[object]) -> list[tuple[float, float | None]]:
    """Values and times of the first of the names that the log has: two metrics have different scales and times."""
    for name in names:
        own = [evaluation for evaluation in row.evals if evaluation.get("metric") == name]
        found = [(value, e.get("time_s")) for e in own if (value := e.get("value")) is not None]
        if found:
            return [(float(value), None if time_s is None else float(time_s)) for value, time_s in found]
    return []
