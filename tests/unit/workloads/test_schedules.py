from __future__ import annotations

import pytest

from trainmark.workloads.card import Schedule
from trainmark.workloads.schedules import learning_rate, peak_learning_rate


def test_poly_by_hand() -> None:
    schedule = Schedule(kind="poly", base_lr=0.01, base_batch=64, epochs=10)
    rates = [learning_rate(schedule, peak=0.01, step=step, num_steps=1000) for step in (0, 500, 999)]
    assert rates == pytest.approx([0.01, 0.01 * 0.5**0.9, 0.01 * 0.001**0.9])


def test_steps_by_hand() -> None:
    schedule = Schedule(kind="step", base_lr=0.02, base_batch=128, epochs=50, milestones=(0.4, 0.8))
    rates = [learning_rate(schedule, peak=0.02, step=step, num_steps=100) for step in (0, 39, 40, 79, 80, 99)]
    assert rates == pytest.approx([0.02, 0.02, 0.002, 0.002, 0.0002, 0.0002])


def test_warm_up_from_a_third() -> None:
    schedule = Schedule(kind="step", base_lr=0.04, base_batch=32, epochs=12, warmup_share=0.01, warmup_from=1 / 3)
    rates = [learning_rate(schedule, peak=0.03, step=step, num_steps=1000) for step in (0, 4, 9, 10)]
    assert rates == pytest.approx([0.03 * (1 / 3 + 2 / 3 * 0.1), 0.03 * (1 / 3 + 2 / 3 * 0.5), 0.03, 0.03])


@pytest.mark.parametrize(("base_batch", "global_batch", "rate"), [(32, 32, 0.04), (32, 4, 0.005), (None, 512, 0.04)])
def test_linear_scaling(base_batch: int | None, global_batch: int, rate: float) -> None:
    schedule = Schedule(kind="step", base_lr=0.04, base_batch=base_batch, epochs=1)
    assert peak_learning_rate(schedule, global_batch=global_batch) == pytest.approx(rate)
