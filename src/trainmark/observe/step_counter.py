"""From optimizer steps, batches and pauses, as a framework reports them, to step records.

A step ends when an optimizer steps that has already stepped since the last end. So two optimizers that take turns (a
GAN) or share the parameters make one step together, and with several steps of one per step of the other, the one with
most steps counts. A script without any optimizer step, because it updates the parameters itself, has one step per
backward pass. One counter serves all frameworks of a process: Keras may run on PyTorch or JAX, and then its batches
count, not what is below them.

The samples of a step are those of the batches since the last one: gradient accumulation has several, and a step that
a loss scaler skips is a step with its samples. Where batches come from several data loaders, the one that had batches
at most steps counts. What comes from a data loader with gradients off, or until its end without any step, is an
evaluation. A step beside an evaluation, a checkpoint or the restart of a data loader says so (`beside`); its time
includes that, and readers leave it out.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Hashable

if TYPE_CHECKING:
    from typing import Protocol

    from trainmark.observe.recorder import Recorder

    class Clock(Protocol):
        """The time of a device that the host runs ahead of."""

        def mark(self) -> Any:
            """A mark of the end of a step on the device; None where there is no device."""

        def seconds(self, begin: Any, end: Any) -> float | None:
            """Between two marks; None while the second has not happened, NaN if that is not known. Never waits."""

        def unix_s(self, mark: Any) -> float | None:
            """When it happened; None where the device does not tell."""


BACKWARD, OPTIMIZER, BATCH = "backward", "optimizer", "batch"
_SIGNALS = (None, BACKWARD, OPTIMIZER, BATCH)
"""What ends a step, the weakest first: a stronger one replaces what was counted by a weaker one."""
_MAX_TEXTS = 256
MODEL = "model"
"""The source of batches that were seen as the input of the model, not in a data loader."""


class _Source:
    """Batches of one data loader, or the inputs of the model."""

    __slots__ = ("is_language", "num_batches", "num_steps", "num_undecided", "samples", "tokens")

    def __init__(self) -> None:
        self.samples = 0
        self.tokens: int | None = 0
        self.is_language = True
        self.num_batches = 0
        """Since the last step; the three above too."""
        self.num_steps = 0
        """At which it had batches."""
        self.num_undecided = 0
        """Batches since its restart, if no step came since."""

    def add(self, samples: int, tokens: int | None, is_language: bool) -> None:
        self.samples += samples
        self.tokens = None if self.tokens is None or tokens is None else self.tokens + tokens
        self.is_language = self.is_language and is_language
        self.num_batches += 1
        self.num_undecided += 1

    def clear(self) -> None:
        self.samples, self.tokens, self.is_language, self.num_batches = 0, 0, True, 0


class StepCounter:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._clocks: list[Clock] = []
        self._texts: dict[tuple[int, int | None, bool, int, bool], str] = {}
        """Most steps have the same batches: what is written about them is made once."""
        self._reset()
        recorder.on_fork(self._forget)
        recorder.on_exit(self._finish)

    def _forget(self) -> None:
        """In a forked child: its steps are its own, but the events of its parent are not its to destroy."""
        inherited = [self._last, self._pending]
        self._reset()
        self.recorder.keep_forever(inherited)

    def _reset(self) -> None:
        self.signal: str | None = None
        self._stepped: set[Hashable] = set()
        self._sources: dict[Hashable, _Source] = {}
        self._beside: list[str] = []
        self._last: tuple[float, Clock | None, Any] | None = None
        self._num_steps = 0
        self._num_skipped = 0
        self._pending: list[tuple[float, Clock, Any, Any, str, float]] = []
        """Steps whose device time is not known yet: host seconds, the clock and its two marks, facts, host time."""

    def add_clock(self, clock: Clock) -> None:
        """Of a framework. Where there are several, the first that has a mark for a step counts."""
        self._clocks.append(clock)

    # -- what a framework reports --------------------------------------------------------------------------------------

    def optimizer_step(self, optimizer: Hashable, framework: str) -> None:
        if not self._counts(OPTIMIZER, framework):
            return
        if optimizer in self._stepped or not self._stepped:
            self._stepped.clear()
            self._end_step()
        self._stepped.add(optimizer)

    def skipped_step(self, optimizer: Hashable, framework: str) -> None:
        """A loss scaler found gradients that are not finite: the batch was processed, the parameters stay."""
        self._num_skipped += 1
        self.optimizer_step(optimizer, framework)

    def backward(self, framework: str) -> None:
        """Counts only as long as no optimizer has stepped."""
        if self._counts(BACKWARD, framework):
            self._end_step()

    def trained_batch(self, framework: str) -> None:
        """The training loop of a framework is done with a batch."""
        if self._counts(BATCH, framework):
            self._end_step()

    def batch(self, source: Hashable, samples: int | None, tokens: int | None, is_language: bool) -> None:
        if samples is None:
            return
        known = self._sources.get(source)
        if known is None:
            known = self._sources[source] = _Source()
        known.add(samples, tokens, is_language)

    def evaluation_batch(self) -> None:
        self.pause("eval")

    def restart(self, source: Hashable) -> None:
        """A data loader begins again."""
        known = self._sources.get(source)
        if known is not None:
            known.num_undecided = 0
            if known.num_steps:
                self.pause("restart")

    def end_of_data(self, source: Hashable) -> None:
        """Its batches were an evaluation if no step came since it began and other batches came for the next step."""
        known = self._sources.get(source)
        if known is not None and known.num_undecided > 1 and known.num_undecided >= known.num_batches > 0:
            known.clear()
            self.pause("eval")

    def pause(self, name: str) -> None:
        if name not in self._beside:
            self._beside.append(name)

    @property
    def num_steps(self) -> int:
        return self._num_steps

    @property
    def has_data_loader(self) -> bool:
        return any(source != MODEL for source in self._sources)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _counts(self, signal: str, framework: str) -> bool:
        if signal == self.signal:
            return True
        if _SIGNALS.index(signal) > _SIGNALS.index(self.signal):
            self._begin(signal, framework)
            return True
        return False

    def _begin(self, signal: str, framework: str) -> None:
        self.signal = signal
        self._last = None
        self._num_steps = 0
        self._pending = []
        facts = {"pid": os.getpid(), "by": "observer", "framework": framework, "signal": signal}
        self.recorder.record(kind="run_start", **facts, unix_s=time.time())

    def _end_step(self) -> None:
        now, unix_s = time.perf_counter(), time.time()  # together: another process may run between two lines
        clock, mark = self._mark()
        last, self._last = self._last, (now, clock, mark)
        facts = self._take_batches()
        beside, self._beside = self._beside, []
        if last is None:  # the first step only starts the clock: set-up is in no step
            return
        self._num_steps += 1
        if beside:
            facts += ',"beside":[%s]' % ",".join(f'"{name}"' for name in beside)
        facts = f'"step":{self._num_steps}{facts}'
        seconds = now - last[0]
        if clock is None or last[1] is not clock:
            self.recorder.line(_as_line(seconds, facts, unix_s), now)
        else:
            self._pending.append((seconds, clock, last[2], mark, facts, unix_s))
            if self.recorder.is_due(now):  # to ask the device takes longer than all else here
                self._write_known(now)

    def _mark(self) -> tuple[Clock | None, Any]:
        for clock in self._clocks:
            mark = clock.mark()
            if mark is not None:
                return clock, mark
        return None, None

    def _write_known(self, now: float) -> None:
        """Steps that the device has finished, in order."""
        lines = []
        while self._pending:
            host_s, clock, begin, end, facts, unix_s = self._pending[0]
            seconds = clock.seconds(begin, end)
            if seconds is None:
                break
            del self._pending[0]
            if seconds != seconds:  # the host started it, and when it was done is not known
                lines.append(_as_line(host_s, f'{facts},"dispatched":true', unix_s))
            else:
                lines.append(_as_line(seconds, f'{facts},"host_s":{host_s:.9f}', clock.unix_s(end) or unix_s))
        if lines:
            self.recorder.line("\n".join(lines), now)

    def _take_batches(self) -> str:
        found = [(key, source) for key, source in self._sources.items() if source.num_batches]
        if not found:
            return ""
        for _, source in found:
            source.num_steps += 1
            source.num_undecided = 0
        key, chosen = found[0]
        if len(found) > 1:
            loaders = [item for item in found if item[0] != MODEL]
            key, chosen = max(loaders or found, key=lambda item: item[1].num_steps)
        facts = (chosen.samples, chosen.tokens, chosen.is_language, chosen.num_batches, key != MODEL)
        for _, source in found:
            source.clear()
        text = self._texts.get(facts)
        if text is None:
            if len(self._texts) > _MAX_TEXTS:
                self._texts.clear()
            text = self._texts[facts] = _describe(*facts)
        return text

    def _finish(self) -> None:
        if self._pending:
            limit = time.perf_counter() + 1.0
            while self._pending and time.perf_counter() < limit:  # the device finishes what the script has queued
                self._write_known(limit)
                time.sleep(0.001)
        if self._num_skipped:
            self.recorder.record(kind="skipped_steps", count=self._num_skipped, unix_s=time.time())


def _as_line(seconds: float, facts: str, unix_s: float) -> str:
    return '{"kind":"step","seconds":%.9f,"unix_s":%.6f,%s}' % (seconds, unix_s, facts)


def _describe(samples: int, tokens: int | None, is_language: bool, num_batches: int, is_loaded: bool) -> str:
    """The batches of a step, as a part of its record."""
    if tokens is None:
        text = f',"samples":{samples}'
    elif not is_loaded:  # which dimension of the text is the batch is not known
        text = f',"tokens":{tokens},"language":true'
    else:
        language = ',"language":true' if is_language else ""
        text = f',"samples":{samples},"tokens":{tokens}{language}'
    return text + (f',"batches":{num_batches}' if num_batches > 1 else "")
