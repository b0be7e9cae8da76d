"""An engine without a framework and a clock that it moves itself, so that loop and records can be tested exactly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trainmark.messages.message import Message
from trainmark.worker.engine import call


@dataclass
class FakeClock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class FakeEngine:
    """Each step takes the next of `seconds`, each evaluation the next of `metrics`; the last one repeats.

    The device lags `lag` steps behind the host. By default losses fall as 1/step. A twin step is shorter by
    `exchange_s`, which is also the time of an all-reduce.
    """

    rank = 0

    def __init__(
        self,
        seconds: Iterable[float],
        *,
        clock: FakeClock,
        samples_per_step: int = 32,
        lag: int = 0,
        losses: Iterable[float] = (),
        steps_per_epoch: int | None = None,
        metrics: Sequence[Mapping[str, float]] = (),
        eval_seconds: float = 0.0,
        eval_batches: int = 1,
        learns: bool = True,
        world_size: int = 1,
        exchange_s: float = 0.0,
        no_twin: Message | None = None,
        compiling_s: Mapping[int, float] | None = None,
    ) -> None:
        """`compiling_s`: how long the engine compiles before a step, by the number of steps done."""
        self.pause: Callable[[Callable[[], None]], None] = call
        self._compiling_s = dict(compiling_s or {})
        self.world_size = world_size
        self._exchange_s, self._no_twin = exchange_s, no_twin
        self.samples_per_step = samples_per_step
        self.steps_per_epoch = steps_per_epoch
        self.clock = clock
        self.num_steps = 0
        self._seconds, self._losses = list(seconds), list(losses)
        self._lag, self._lagging = lag, True
        self._metrics, self._learns = metrics, learns
        self._eval_seconds, self._eval_batches = eval_seconds, eval_batches
        self.num_evaluations = 0
        self.weights: dict[str, NDArray[Any]] = {}

    def step(self) -> None:
        if self.num_steps in self._compiling_s:
            self.pause(lambda: self._pass_time(self._compiling_s[self.num_steps]))
        self._pass_time(self._seconds[min(self.num_steps, len(self._seconds) - 1)])
        self.num_steps += 1
        self._lagging = True

    def _pass_time(self, seconds: float) -> None:
        self.clock.now_s += seconds

    def twin_step(self) -> None:
        self.step()
        self.clock.now_s -= self._exchange_s

    def why_no_twin(self) -> Message | None:
        return self._no_twin

    def timestamp(self) -> tuple[int, float]:
        return self.num_steps, self.clock.now_s

    def is_done(self, timestamp: tuple[int, float]) -> bool:
        return not self._lagging or timestamp[0] <= self.num_steps - self._lag

    def seconds_between(self, earlier: tuple[int, float], later: tuple[int, float]) -> float:
        return later[1] - earlier[1]

    def queue_loss(self) -> int:
        return self.num_steps - 1

    def read_loss(self, handle: int) -> float:
        return self._losses[min(handle, len(self._losses) - 1)] if self._losses else 1 / (1 + handle)

    def wait(self) -> None:
        self._lagging = False

    def agree(self, gravity: int, numbers: Sequence[int]) -> tuple[int, list[int]]:
        return gravity, list(numbers)

    def gather(self, part: Any) -> list[Any]:
        return [part]

    def slowest(self, seconds: float) -> float:
        return seconds

    def gradient_bytes(self) -> int:
        return 1_000_000

    def time_all_reduce(self, num_bytes: int, *, max_seconds: float) -> list[float]:  # noqa: ARG002
        self.clock.now_s += self._exchange_s
        return [self._exchange_s]

    def evaluate(self, on_batch: Callable[[], None] = lambda: None) -> Mapping[str, float] | None:
        for _ in range(self._eval_batches):
            self.clock.now_s += self._eval_seconds / self._eval_batches
            on_batch()
        self.num_evaluations += 1
        return self._metrics[min(self.num_evaluations, len(self._metrics)) - 1] if self._metrics else None

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        self.epoch, self.first_step = epoch, step

    def save(self, path: Path, progress: Mapping[str, float]) -> None:
        path.write_text(json.dumps({"num_steps": self.num_steps, "progress": dict(progress)}))

    def restore(self, path: Path) -> Mapping[str, float]:
        state = json.loads(path.read_text())
        self.num_steps = state["num_steps"]
        progress: Mapping[str, float] = state["progress"]
        return progress

    def export_weights(self) -> Mapping[str, NDArray[Any]]:
        return dict(self.weights)

    def import_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self.weights = dict(weights)

    def advise_on_bad_loss(self, step: int) -> None:
        """It has no learning rate."""

    def weights_changed(self) -> bool:
        return self._learns

    def warnings(self) -> list[Message]:
        return []

    def facts(self) -> Mapping[str, Any]:
        return {"engine": "fake"}

    def peak_memory_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        self.closed = True
