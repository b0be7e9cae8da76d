"""What a training tells beside the speed of its steps: when the target was reached, and what the pauses cost."""

from __future__ import annotations

from trainmark.analyse.imported import time_to_stated_target
from trainmark.store.rows import RunRow


def time_to_train(row: RunRow) -> float | None:
    """Seconds from the first step to the end of the first evaluation that reached every target, pauses included."""
    if not row.until_target:
        return time_to_stated_target(row)
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


def speeds(row: RunRow) -> dict[str, float] | None:
    """Samples over seconds of the whole training, three ways; None for a run without pauses."""
    steps_s, samples = float(row.seconds.sum()), float(row.samples.sum())
    if not row.pauses or row.outcome != "ok" or steps_s <= 0:
        return None
    pauses_s = sum(row.pauses.values())
    return {
        "raw": samples / (steps_s + pauses_s),
        "without_evaluation": samples / (steps_s + pauses_s - row.pauses.get("eval", 0.0)),
        "pure_step": samples / steps_s,
    }
