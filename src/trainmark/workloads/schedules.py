"""Learning rates as pure functions of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from trainmark.workloads.card import Schedule


def peak_learning_rate(schedule: Schedule, *, global_batch: int) -> float:
    """Linear in the global batch, if the recipe scales it."""
    return schedule.base_lr * (global_batch / schedule.base_batch if schedule.base_batch is not None else 1.0)


def learning_rate(
    schedule: Schedule, *, peak: float, step: int, num_steps: float, epochs: float | None = None
) -> float:
    """The rate of step `step`, counted from 0, in a training of `num_steps`; `epochs` is the recipe's if None.

    A shorter training has a proportionally shorter warm-up; a longer training has the same warm-up.
    """
    warmup = _warmup(schedule, num_steps, epochs if epochs is not None else schedule.epochs)
    if step + 1 < warmup:
        return peak * (schedule.warmup_from + (1 - schedule.warmup_from) * (step + 1) / warmup)
    return peak * _DECAYS[schedule.kind](schedule, step, warmup, num_steps)


def _warmup(schedule: Schedule, num_steps: float, epochs: float) -> float:
    """In steps; 0 for none."""
    if schedule.warmup_steps:
        return max(1.0, schedule.warmup_steps * min(1.0, epochs / schedule.epochs))
    if schedule.warmup_share:
        return max(1.0, schedule.warmup_share * num_steps * min(1.0, schedule.epochs / epochs))
    return 0.0


def evaluation_interval(schedule: Schedule, *, epochs: int) -> int:
    """Epochs between evaluations: the recipe's, fewer in proportion in a shorter training, at least one."""
    return max(1, round(schedule.eval_epochs * min(1.0, epochs / schedule.epochs)))


def _cosine(_: Schedule, step: int, warmup: float, num_steps: float) -> float:
    total = max(num_steps, warmup + 1)
    progress = min(1.0, (step - max(warmup, 1.0) + 1) / (total - max(warmup, 1.0)))
    return 0.5 * (1 + math.cos(math.pi * progress))


def _poly(schedule: Schedule, step: int, _: float, num_steps: float) -> float:
    return float(max(0.0, 1 - step / num_steps) ** schedule.power)


def _step(schedule: Schedule, step: int, _: float, num_steps: float) -> float:
    num_passed = sum(step >= share * num_steps for share in schedule.milestones)
    return float(schedule.gamma**num_passed)


_DECAYS: Mapping[str, Callable[[Schedule, int, float, float], float]] = {
    "cosine": _cosine,
    "poly": _poly,
    "step": _step,
}
