"""The one measured loop.

Steps are queued without waiting for the device. Behind each step goes a mark; marks are read later, at the edges of
blocks of steps, when the device has long passed them. So measuring neither drains the device's queue nor waits for it.
The first block is one step; later blocks last about a quarter of a second, so the work at an edge stays below a
thousandth of it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trainmark.records import Kind, Outcome
from trainmark.worker.engine import Engine, Mark
from trainmark.worker.recorder import Recorder

_BLOCK_S = 0.25
_GRAVITY = (None, Outcome.OK, Outcome.KILLED, Outcome.FAILED, Outcome.NAN)
"""What a rank may say at an edge, from "go on" to the gravest; ranks agree on the largest index."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    max_seconds: float
    max_steps: int | None = None
    epochs: int | None = None
    """Train this many epochs and evaluate after each; `max_seconds` then does not apply."""


@dataclass(frozen=True, kw_only=True)
class LoopEnd:
    outcome: Outcome
    reason: str
    num_steps: int | None
    """None where the loop was left by an exception."""


@dataclass(kw_only=True)
class _Pending:
    step: int
    mark: Mark
    loss: Any = None


@dataclass(kw_only=True)
class MeasuredLoop:
    engine: Engine
    recorder: Recorder
    limits: Limits
    should_stop: Callable[[], tuple[Outcome, str] | None]
    """A reason to end now and what that makes of the run, asked at each edge: the controller's stop file, a signal."""
    clock: Callable[[], float] = time.perf_counter
    _pending: deque[_Pending] = field(default_factory=deque)
    _last_mark: Mark = None
    _num_queued: int = 0
    _device_s: float = 0.0
    _bad_loss: str | None = None

    def run(self) -> LoopEnd:
        if self.limits.epochs is None:
            return self._run_until_stopped()
        return self._run_epochs(self.limits.epochs)

    def _run_until_stopped(self) -> LoopEnd:
        self.engine.begin_epoch(0)
        end = self._run_steps(self.limits.max_steps)
        return end or self._end(Outcome.OK, f"{self._num_queued} steps done")

    def _run_epochs(self, epochs: int) -> LoopEnd:
        per_epoch = self.engine.steps_per_epoch
        if per_epoch is None:
            return self._end(Outcome.FAILED, "this data has no epochs; give --data DIR")
        for epoch in range(epochs):
            self.engine.begin_epoch(epoch)
            end = self._run_steps(min(per_epoch * (epoch + 1), self.limits.max_steps or math.inf))
            if end is not None:
                return end
            self._evaluate(epoch + 1)
            if self._num_queued == self.limits.max_steps:
                break
        return self._end(Outcome.OK, f"{self._num_queued} steps, {self._num_queued / per_epoch:g} epochs done")

    def _run_steps(self, until_step: float | None) -> LoopEnd | None:
        """None when `until_step` is reached; a LoopEnd when there is a reason to end the run."""
        self._last_mark = self.engine.mark()  # the clock starts here: evaluation before it is not step time
        begin = self.clock()
        block = 1
        while until_step is None or self._num_queued < until_step:
            block_begin = self.clock()
            num_steps = int(min(block, (until_step or math.inf) - self._num_queued))
            self._queue_block(num_steps)
            self._record_done()
            now = self.clock()
            end, block = self._agree(now - begin, _next_block(num_steps, now - block_begin))
            if end is not None:
                self.engine.wait()
                self._record_done()
                return self._agree(now - begin, block)[0] or end
        self.engine.wait()
        self._record_done()
        return self._agree(0.0, block)[0]  # once more: the last losses are known only now

    def _agree(self, elapsed_s: float, block: int) -> tuple[LoopEnd | None, int]:
        """All ranks go on or end together, with the gravest of their outcomes; rank 0's block is everyone's."""
        outcome, reason = self._reason_to_end(elapsed_s)
        gravity, block = self.engine.agree(_GRAVITY.index(outcome), block)
        agreed = _GRAVITY[gravity]
        if agreed is None:
            return None, block
        return self._end(agreed, reason if agreed is outcome else "as another rank asked; see its rank file"), block

    def _queue_block(self, num_steps: int) -> None:
        for position in range(num_steps):
            self.engine.step()
            self._num_queued += 1
            # The loss is copied before the mark, so that a mark that is done says that the loss has arrived.
            loss = self.engine.queue_loss() if position == num_steps - 1 else None
            self._pending.append(_Pending(step=self._num_queued, mark=self.engine.mark(), loss=loss))

    def _record_done(self) -> None:
        while self._pending and self.engine.is_done(self._pending[0].mark):
            done = self._pending.popleft()
            seconds = self.engine.seconds_between(self._last_mark, done.mark)
            self._last_mark = done.mark
            self._device_s += seconds
            record: dict[str, Any] = {
                "kind": Kind.STEP,
                "step": done.step,
                "seconds": seconds,
                "time_s": self._device_s,
            }
            record["samples"] = self.engine.samples_per_step
            if done.loss is not None:
                record["loss"] = self._check_loss(self.engine.read_loss(done.loss), done.step)
            self.recorder.write(record)
        for code, message in self.engine.warnings():
            self.recorder.write({"kind": Kind.WARNING, "code": code, "message": message})

    def _check_loss(self, loss: float, step: int) -> float | None:
        if math.isfinite(loss):
            return loss
        self._bad_loss = self._bad_loss or f"the loss was {loss} at step {step}; try a lower learning rate or bf16"
        return None

    def _reason_to_end(self, elapsed_s: float) -> tuple[Outcome | None, str]:
        if self._bad_loss is not None:
            return Outcome.NAN, self._bad_loss
        if self.recorder.failure is not None:
            return Outcome.FAILED, f"records could not be written: {self.recorder.failure}"
        if self.limits.epochs is None and elapsed_s >= self.limits.max_seconds:
            return Outcome.OK, f"the measuring time of {self.limits.max_seconds:g} s is over"
        return self.should_stop() or (None, "")

    def _evaluate(self, epoch: int) -> None:
        self.recorder.write({"kind": Kind.PHASE, "phase": "eval", "edge": "begin", "step": self._num_queued})
        begin = self.clock()
        metrics = self.engine.evaluate()
        seconds = self.clock() - begin
        self.recorder.write({"kind": Kind.PHASE, "phase": "eval", "edge": "end", "seconds": seconds})
        for metric, value in (metrics or {}).items():
            where = {"step": self._num_queued, "epoch": epoch, "time_s": self._device_s}
            self.recorder.write({"kind": Kind.EVAL, **where, "metric": metric, "value": value})

    def _end(self, outcome: Outcome, reason: str) -> LoopEnd:
        return LoopEnd(outcome=outcome, reason=reason, num_steps=self._num_queued)


def _next_block(num_steps: int, seconds: float) -> int:
    """Toward a quarter of a second, at most doubling, so that a slow first step does not decide for all."""
    wanted = num_steps * _BLOCK_S / max(seconds, 1e-9)
    return max(1, min(int(wanted), 2 * num_steps))
