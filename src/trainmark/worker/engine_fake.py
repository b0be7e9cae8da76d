"""An engine without a framework and a clock without time: loop, records and statistics can be tested exactly.

It is part of the product: `trainmark`'s own tests and those of a new launcher or dialect run on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class FakeClock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class FakeEngine:
    """Each step takes the next of `seconds` (the last one for ever). The device lags `lag` steps behind the host."""

    rank = 0
    world_size = 1

    def __init__(
        self,
        seconds: Iterable[float],
        *,
        clock: FakeClock,
        samples_per_step: int = 32,
        lag: int = 0,
        losses: Iterable[float] = (1.0,),
        steps_per_epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
        eval_seconds: float = 0.0,
    ) -> None:
        self.samples_per_step = samples_per_step
        self.steps_per_epoch = steps_per_epoch
        self.clock = clock
        self.num_steps = 0
        self._seconds, self._losses = list(seconds), list(losses)
        self._lag, self._lagging = lag, True
        self._metrics, self._eval_seconds = metrics, eval_seconds

    def step(self) -> None:
        self.clock.now_s += self._seconds[min(self.num_steps, len(self._seconds) - 1)]
        self.num_steps += 1
        self._lagging = True

    def mark(self) -> tuple[int, float]:
        return self.num_steps, self.clock.now_s

    def is_done(self, mark: tuple[int, float]) -> bool:
        return not self._lagging or mark[0] <= self.num_steps - self._lag

    def seconds_between(self, earlier: tuple[int, float], later: tuple[int, float]) -> float:
        return later[1] - earlier[1]

    def queue_loss(self) -> int:
        return self.num_steps - 1

    def read_loss(self, handle: int) -> float:
        return self._losses[min(handle, len(self._losses) - 1)]

    def wait(self) -> None:
        self._lagging = False

    def agree(self, gravity: int, block: int) -> tuple[int, int]:
        return gravity, block

    def evaluate(self) -> Mapping[str, float] | None:
        self.clock.now_s += self._eval_seconds
        return self._metrics

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def warnings(self) -> list[tuple[str, str]]:
        return []

    def facts(self) -> Mapping[str, Any]:
        return {"engine": "fake"}

    def peak_memory_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        self.closed = True
