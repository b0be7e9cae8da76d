"""What is measured in turns: a loader that is slower than the device shows as what it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainmark.worker import variant
from trainmark.worker.training import TrainingEngine

_STEP_S = 0.036
_NUM_AHEAD = 26


class Fed(TrainingEngine[None]):
    """A device that takes `_STEP_S` for a step, and loaders that make a part of what it could use. Its own clock."""

    samples_per_step = 1

    def __init__(self, fraction: float, num_ahead: int = _NUM_AHEAD) -> None:
        self._per_s, self.now, self.ready, self.num_restarts = fraction / _STEP_S, 0.0, 0.0, 0
        self._feed: Any = SimpleNamespace(num_ahead=num_ahead, restart=self._restart)

    def wait_for(self, seconds: float) -> None:
        self.now += seconds
        self.ready = min(_NUM_AHEAD, self.ready + seconds * self._per_s)

    def _restart(self) -> None:
        self.ready, self.num_restarts = 0.0, self.num_restarts + 1

    def step(self) -> None:
        if self._feed.num_ahead:
            self.wait_for(max(0.0, 1 - self.ready) / self._per_s)
            self.ready -= 1
        self.wait_for(_STEP_S)

    def wait(self) -> None:
        pass

    def timestamp(self) -> float:
        return self.now

    def seconds_between(self, earlier: float, later: float) -> float:
        return later - earlier


Fed.__abstractmethods__ = frozenset()  # what is not here is not called


def rate_of(engine: Fed, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(variant, "time", SimpleNamespace(perf_counter=lambda: engine.now))
    engine.wait_for(6.0)  # in which the other variant is measured
    found = variant._measure(engine, 6.0)
    steps, spent = (sum(column) for column in zip(*found["blocks"], strict=True))
    return float(steps / spent)


@pytest.mark.parametrize("fraction", [0.3, 0.8, 0.97, 1.0, 1.5])
def test_a_slow_loader_does_not_profit_from_the_pause(fraction: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rate_of(Fed(fraction), monkeypatch) * _STEP_S == pytest.approx(min(1.0, fraction), rel=0.01)


def test_data_that_stays_on_the_device_has_nothing_to_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Fed(1.0, num_ahead=0)
    assert rate_of(engine, monkeypatch) * _STEP_S == pytest.approx(1.0)
    assert engine.num_restarts == 0
