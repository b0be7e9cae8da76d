from __future__ import annotations

from dataclasses import replace

import pytest

from trainmark.workloads.card import Schedule
from trainmark.workloads.schedules import evaluation_interval, learning_rate, peak_learning_rate


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


def test_a_longer_training_warms_up_no_longer_and_evaluates_no_less() -> None:
    schedule = Schedule(kind="cosine", base_lr=0.256, base_batch=256, epochs=50, warmup_share=8 / 50)
    for epochs, warm in ((50, 8), (90, 8), (25, 4)):
        peak = learning_rate(schedule, peak=0.256, step=warm * 100 - 1, num_steps=epochs * 100, epochs=epochs)
        before = learning_rate(schedule, peak=0.256, step=warm * 50 - 1, num_steps=epochs * 100, epochs=epochs)
        assert (peak, before) == (pytest.approx(0.256), pytest.approx(0.128))
        assert evaluation_interval(schedule, epochs=epochs) == 1
    rare = replace(schedule, eval_epochs=10)
    assert [evaluation_interval(rare, epochs=epochs) for epochs in (5, 25, 50, 200)] == [1, 5, 10, 10]
