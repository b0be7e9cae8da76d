"""Learning rates as pure functions of the step."""

from __future__ import annotations

import math

from trainmark.workloads.card import Schedule


def learning_rate(schedule: Schedule, *, step: int, steps_per_epoch: float, epochs: int, global_batch: int) -> float:
    """The rate of step `step`, counted from 0.

    A run shorter than the recipe's keeps the recipe's share of warm-up: 8 of 50 epochs becomes 1.6 of 10.
    """
    if schedule.kind != "cosine":
        raise ValueError(f"no schedule {schedule.kind!r}")
    peak = schedule.base_lr * global_batch / schedule.base_batch
    warmup_epochs = schedule.warmup_epochs * min(1.0, epochs / schedule.epochs)
    warmup = max(1.0, warmup_epochs * steps_per_epoch)
    if step + 1 < warmup:
        return peak * (step + 1) / warmup
    total = max(epochs * steps_per_epoch, warmup + 1)
    progress = min(1.0, (step - warmup + 1) / (total - warmup))
    return 0.5 * peak * (1 + math.cos(math.pi * progress))
