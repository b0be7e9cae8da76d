"""A variant's rate is that of its steps, whatever it had to compile between them."""

from __future__ import annotations

import pytest

from trainmark.worker import variant
from trainmark.worker.fake.engine import FakeClock, FakeEngine


def test_steps_are_timed_once_nothing_new_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated COCO images bring a new set of shapes in steps 1, 3 and 11; compiling one takes a thousand steps."""
    clock = FakeClock()
    monkeypatch.setattr(variant.time, "perf_counter", clock)
    engine = FakeEngine([0.025], clock=clock, samples_per_step=4, compiling_s={1: 25.0, 3: 25.0, 11: 25.0, 700: 25.0})
    engine.step()
    for _ in range(4):
        found = variant._measure(engine, 6.0)
        steps, seconds = (sum(column) for column in zip(*found["blocks"], strict=True))
        assert 4 * steps / seconds == pytest.approx(160.0)
        assert seconds >= 0.7 * 6.0
