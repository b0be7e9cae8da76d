"""The one measured loop.

Steps are queued without waiting for the device. A time stamp is queued behind each step; stamps are read later, between
blocks of steps, when the device has long passed them. So measuring neither drains the device's queue nor waits for it.
The first block is one step; later blocks last about a quarter of a second, so that the work between them stays below a
thousandth of it. The end of a block is called an edge. Evaluation and checkpoints are pauses at edges, and an engine
may ask for a pause before a step, to compile. Pauses do not count as step time, and each is recorded with its length.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from trainmark.messages.message import Message
from trainmark.messages.ranks import another_rank
from trainmark.messages.training import (
    bad_loss,
    no_epochs,
    records_not_written,
    steps_done,
    target_not_reached,
    target_reached,
    time_limit,
    weights_unchanged,
)
from trainmark.runfolder.records import Kind, Outcome
from trainmark.silence_limit import NUM_RECENT
from trainmark.worker.alarm import Alarm
from trainmark.worker.engine import Engine, Timestamp
from trainmark.worker.recorder import Recorder
from trainmark.worker.sanity import LossTrend, why_no_metric, why_not_plausible, why_not_training

_BLOCK_S = 0.25
_MAX_LOSSES = 128
"""Losses of a block stay in the engine until they are read; it has room for twice as many."""
_MIN_STEPS = 30
"""Before the weights are checked for a change: a loss scaler for fp16 may skip the first steps."""
_SIGN_EVERY_S = 10.0
_GRAVITY = (None, Outcome.OK, Outcome.KILLED, Outcome.FAILED, Outcome.NAN)
"""What a rank can want at an edge, from "continue" to the gravest; ranks agree on the largest index."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    max_seconds: float
    max_steps: int | None = None
    epochs: int | None = None
    """Train this many epochs, with evaluations; `max_seconds` does not apply then."""
    eval_every: int = 1
    """Epochs between evaluations; the last epoch is always evaluated."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """Stop at the first evaluation in which every metric named here reaches its value."""
    checkpoint_s: float = 60.0
    """Between checkpoints of a training; there is also one after each evaluation."""


@dataclass(frozen=True, kw_only=True)
class LoopEnd:
    outcome: Outcome
    reason: Message
    num_steps: int | None
    """None if the loop ended with an exception."""
    is_own: bool = True
    """Whether the reason is this rank's own; otherwise it only agreed with another rank."""


@dataclass(kw_only=True)
class _Pending:
    step: int
    timestamp: Timestamp
    loss: Any = None


@dataclass(kw_only=True)
class ResumePoint:
    """Where a training can resume: what a checkpoint holds besides the engine's own state."""

    num_steps: int = 0
    device_s: float = 0.0
    """Of all steps."""
    wall_s: float = 0.0
    """Since the first step, pauses included; the time between an interruption and the resumption is not counted."""
    evaluated_step: int = 0


@dataclass(kw_only=True)
class MeasuredLoop:
    engine: Engine
    recorder: Recorder
    limits: Limits
    should_stop: Callable[[], tuple[Outcome, Message] | None]
    """A reason to end now, and the outcome; asked at each edge: the controller's stop file, a signal."""
    save: Callable[[ResumePoint], None] | None = None
    """Writes a checkpoint; None for a run without checkpoints."""
    start: ResumePoint = field(default_factory=ResumePoint)
    earlier_losses: tuple[float, ...] = ()
    """Of the steps before `start`."""
    earlier_warnings: frozenset[Message] = frozenset()
    """Already in the records: an image that cannot be read is named once."""
    alarm: Alarm | None = None
    """Writes stack traces if the next edge does not come in time."""
    clock: Callable[[], float] = time.perf_counter
    _pending: deque[_Pending] = field(default_factory=deque)
    _last_timestamp: Timestamp = None
    _at: ResumePoint = field(default_factory=ResumePoint)
    _is_warm: bool = False
    _begin_s: float = 0.0
    _saved_s: float = 0.0
    _paused_s: float = 0.0
    """In pauses inside blocks: not measuring time."""
    _recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=NUM_RECENT))
    _losses: list[float] = field(default_factory=list)
    _bad_loss: Message | None = None

    def run(self) -> LoopEnd:
        self._at = ResumePoint(**vars(self.start))
        self._losses = list(self.earlier_losses)
        self._begin_s = self.clock() - self.start.wall_s
        self._saved_s = self.clock()
        self.engine.pause = self._pause_in_step
        end = self._run_until_stopped() if self.limits.epochs is None else self._run_epochs(self.limits.epochs)
        if self.limits.epochs is not None and end.outcome in (Outcome.OK, Outcome.KILLED):
            self._checkpoint()
        return self._judge(end)

    # -- the two ways to run -------------------------------------------------------------------------------------------

    def _run_until_stopped(self) -> LoopEnd:
        self.engine.begin_epoch(0)
        end = self._run_steps(self.limits.max_steps)
        return end or self._end(Outcome.OK, steps_done(steps=self._at.num_steps, epochs=None))

    def _run_epochs(self, epochs: int) -> LoopEnd:
        per_epoch = self.engine.steps_per_epoch
        if per_epoch is None:
            return self._end(Outcome.FAILED, no_epochs())
        last_step = min(epochs * per_epoch, self.limits.max_steps or math.inf)
        while True:
            end = self._evaluate_if_due(per_epoch, last_step)
            if end is not None:
                return end
            if self._at.num_steps >= last_step:
                return self._end(Outcome.OK, self._all_done(per_epoch))
            epoch, step = divmod(self._at.num_steps, per_epoch)
            self.engine.begin_epoch(epoch, step=step)
            end = self._run_steps(min(per_epoch * (epoch + 1), last_step))
            if end is not None:
                return end

    def _all_done(self, per_epoch: int) -> Message:
        steps, epochs = self._at.num_steps, self._at.num_steps / per_epoch
        if not self.limits.targets:
            return steps_done(steps=steps, epochs=epochs)
        wanted = [f"{metric} {value:g}" for metric, value in self.limits.targets.items()]
        warning = target_not_reached(steps=steps, epochs=epochs, wanted=wanted)
        self.recorder.write({"kind": Kind.WARNING, **warning.to_json()})
        return warning

    def _run_steps(self, until_step: float | None) -> LoopEnd | None:
        """None if `until_step` was reached, else why the run ends."""
        self._last_timestamp = self.engine.timestamp()  # the clock starts here: anything before it is not step time
        begin = self._measuring_clock()
        block = 1
        self._expect_step()
        while until_step is None or self._at.num_steps < until_step:
            block_begin = self._measuring_clock()
            num_steps = int(min(block, (until_step or math.inf) - self._at.num_steps))
            self._queue_block(num_steps)
            self._record_done()
            self._expect_step()
            if block == 1 and not self._is_warm:
                # The very first step chooses kernels and fills caches for seconds: set-up, not measuring time.
                self.engine.wait()
                self._is_warm, begin = True, self._measuring_clock()
            now = self._measuring_clock()
            wanted = _next_block(num_steps, now - block_begin)
            end, block, is_due = self._agree(now - begin, min(wanted, _MAX_LOSSES) if self.limits.epochs else wanted)
            if end is not None or is_due:
                self.engine.wait()
                self._record_done()
                end = self._agree(now - begin, block)[0] or end  # a NaN seen only now must not be checkpointed
                if end is not None:
                    return end
                self._checkpoint()
                self._last_timestamp = self.engine.timestamp()
                self._expect_step()
        self.engine.wait()
        self._record_done()
        return self._agree(0.0, block)[0]  # again: the last losses are known only now

    # -- at an edge ----------------------------------------------------------------------------------------------------

    def _agree(self, elapsed_s: float, block: int) -> tuple[LoopEnd | None, int, bool]:
        """All ranks continue or end together, with the gravest of their outcomes and with rank 0's block size."""
        outcome, reason = self._reason_to_end(elapsed_s)
        is_due = self.limits.epochs is not None and self.clock() - self._saved_s >= self.limits.checkpoint_s
        gravity, (block, due) = self.engine.agree(_GRAVITY.index(outcome), (block, int(is_due)))
        agreed = _GRAVITY[gravity]
        if agreed is None:
            return None, block, bool(due)
        if agreed is outcome and reason is not None:
            return self._end(agreed, reason), block, False
        end = self._end(agreed, another_rank())
        return replace(end, is_own=False), block, False

    def _queue_block(self, num_steps: int) -> None:
        for position in range(num_steps):
            self.engine.step()
            self._at.num_steps += 1
            # The loss is copied before the time stamp, so that it has arrived when the stamp is done.
            # A measurement of speed needs the last one of a block; a training records all.
            is_wanted = position == num_steps - 1 or self.limits.epochs is not None
            loss = self.engine.queue_loss() if is_wanted else None
            self._pending.append(_Pending(step=self._at.num_steps, timestamp=self.engine.timestamp(), loss=loss))

    def _record_done(self) -> None:
        while self._pending and self.engine.is_done(self._pending[0].timestamp):
            done = self._pending.popleft()
            seconds = self.engine.seconds_between(self._last_timestamp, done.timestamp)
            self._last_timestamp = done.timestamp
            self._at.device_s += seconds
            self._recent_s.append(seconds)
            record: dict[str, Any] = {
                "kind": Kind.STEP,
                "step": done.step,
                "seconds": seconds,
                "time_s": self._at.device_s,
            }
            record["samples"] = self.engine.samples_per_step
            if done.loss is not None:
                record["loss"] = self._check_loss(self.engine.read_loss(done.loss), done.step)
            self.recorder.write(record)
        self._write_warnings()

    def _expect_step(self) -> None:
        if self.alarm is not None:
            self.alarm.expect_step(self._recent_s)

    def _write_warnings(self) -> None:
        for warning in self.engine.warnings():
            if warning not in self.earlier_warnings:
                self.recorder.write({"kind": Kind.WARNING, **warning.to_json()})

    def _check_loss(self, loss: float, step: int) -> float | None:
        if math.isfinite(loss):
            self._losses.append(loss)
            return loss
        if self._bad_loss is None:
            self._bad_loss = bad_loss(loss=str(loss), step=step, advice=self.engine.advise_on_bad_loss(step))
        return None

    def _reason_to_end(self, elapsed_s: float) -> tuple[Outcome | None, Message | None]:
        if self._bad_loss is not None:
            return Outcome.NAN, self._bad_loss
        if self.recorder.failure is not None:
            return Outcome.FAILED, records_not_written(why=self.recorder.failure)
        if self.limits.epochs is None and elapsed_s >= self.limits.max_seconds:
            return Outcome.OK, time_limit(seconds=self.limits.max_seconds)
        return self.should_stop() or (None, None)

    # -- pauses --------------------------------------------------------------------------------------------------------

    def _evaluate_if_due(self, per_epoch: int, last_step: float) -> LoopEnd | None:
        step = self._at.num_steps
        epoch, is_inside = divmod(step, per_epoch)
        is_due = (not is_inside and epoch % self.limits.eval_every == 0) or step == last_step
        if step == 0 or step == self._at.evaluated_step or not is_due:
            return None
        metrics = self._pause("eval", lambda: self.engine.evaluate(self._signs_of_life("eval"))) or {}
        self._write_warnings()  # now: there is no edge after the last evaluation
        self._at.evaluated_step = step
        # Since the first step, pauses included: that is how long a person waits for the result.
        where = {"step": step, "epoch": step / per_epoch, "time_s": self.clock() - self._begin_s}
        for metric, value in metrics.items():
            self.recorder.write({"kind": Kind.EVAL, **where, "metric": metric, "value": value})
        problem = why_no_metric(metrics)
        if problem is not None:
            return self._end(Outcome.FAILED, problem)
        targets = self.limits.targets
        if targets and all(metrics.get(metric, -math.inf) >= value for metric, value in targets.items()):
            reached = [f"{metric} {metrics[metric]:.4g}" for metric in targets]
            return self._end(Outcome.OK, target_reached(steps=step, epochs=step / per_epoch, reached=reached))
        if step < last_step:
            self._checkpoint()
        return None

    def _checkpoint(self) -> None:
        save = self.save
        if save is not None:
            self._at.wall_s = self.clock() - self._begin_s
            self._pause("checkpoint", lambda: save(self._at))
        self._saved_s = self.clock()

    def _pause_in_step(self, work: Callable[[], None]) -> None:
        """Called by the engine before a step for which it has something to do that is not training."""
        self.engine.wait()
        self._record_done()
        begin = self.clock()

        def work_and_wait() -> None:
            work()
            self.engine.wait()

        self._pause("compile", work_and_wait)
        self._paused_s += self.clock() - begin
        self._last_timestamp = self.engine.timestamp()
        self._expect_step()

    def _measuring_clock(self) -> float:
        return self.clock() - self._paused_s

    def _pause(self, phase: str, work: Callable[[], Any]) -> Any:
        self._write_phase(phase, edge="begin")
        self._expect_pause()
        begin = self.clock()
        result = work()
        self._write_phase(phase, edge="end", seconds=self.clock() - begin)
        return result

    def _write_phase(self, phase: str, **facts: Any) -> None:
        self.recorder.write({"kind": Kind.PHASE, "phase": phase, "step": self._at.num_steps, **facts})

    def _signs_of_life(self, phase: str) -> Callable[[], None]:
        """Called during a long pause, which may take hours as long as it makes progress."""
        last_s = self.clock()

        def sign() -> None:
            nonlocal last_s
            if self.clock() - last_s >= _SIGN_EVERY_S:
                last_s = self.clock()
                self._write_phase(phase, edge="progress")
                self._expect_pause()

        return sign

    def _expect_pause(self) -> None:
        if self.alarm is not None:
            self.alarm.expect_pause()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _judge(self, end: LoopEnd) -> LoopEnd:
        """A run that completed may still have trained nothing. One verdict for all ranks: single ones are noisier."""
        if end.outcome is not Outcome.OK:
            return end
        own = LossTrend.of(self._losses)
        trends = self.engine.gather(None if own is None else asdict(own))
        trend = LossTrend.mean([LossTrend(**one) for one in trends if one is not None])
        why_not = why_not_plausible if self.limits.epochs is None else why_not_training
        problem = why_not(trend) if trend is not None else None
        if problem is None and self._at.num_steps >= _MIN_STEPS and not self.engine.weights_changed():
            problem = weights_unchanged(steps=self._at.num_steps)
        return end if problem is None else self._end(Outcome.FAILED, problem)

    def _end(self, outcome: Outcome, reason: Message) -> LoopEnd:
        return LoopEnd(outcome=outcome, reason=reason, num_steps=self._at.num_steps)


def _next_block(num_steps: int, seconds: float) -> int:
    """Toward a quarter of a second, at most doubling, so that one slow step does not set the size."""
    wanted = num_steps * _BLOCK_S / max(seconds, 1e-9)
    return max(1, min(int(wanted), 2 * num_steps))
