"""A log that is being written: the lines of a running command as step records, in seconds and samples of all devices.

A running log has a clock that a finished one lacks: when its lines came. Many scripts print the time of one iteration
in ten, or three digits of it; the time between two such lines covers all ten, to the clock's own precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.logs.dialect import Dialect
from trainmark.logs.record import Facts, LogRecord
from trainmark.logs.stream import LogStream
from trainmark.records import Json, Kind


@dataclass(frozen=True, kw_only=True)
class _Line:
    """What is remembered of the step line before."""

    step: int | None
    epoch: float | None
    came_s: float | None
    """By the file's clock; None where several lines came at once."""


class LiveLog:
    """`given` is what the user said beside the command; it counts before what the log says."""

    def __init__(self, dialects: Sequence[Dialect], given: Facts) -> None:
        self._stream = LogStream(dialects)
        self._given = given
        self._last: _Line | None = None
        self.unit = "samples"
        self._warnings: dict[str, str] = {}

    @property
    def dialect(self) -> str | None:
        return self._stream.dialect.name if self._stream.dialect is not None else None

    @property
    def facts(self) -> Facts:
        return Facts(**{**self._stream.facts.known(), **self._given.known()})

    def feed(self, chunk: bytes, written_s: float | None) -> list[Json]:
        """`written_s` is when the end of the chunk was written."""
        return self._convert(self._stream.feed(chunk), written_s)

    def close(self) -> list[Json]:
        """What an unfinished last line holds, and what to know of all of them."""
        rest = self._convert(self._stream.close(), None)
        return [
            *rest,
            *({"kind": Kind.WARNING, "code": code, "message": text} for code, text in self._warnings.items()),
        ]

    def _convert(self, found: Sequence[LogRecord], written_s: float | None) -> list[Json]:
        num_steps = sum(record.kind == "step" for record in found)
        made: list[Json] = []
        for record in found:
            if record.kind == "step":
                num_steps -= 1
                made += self._step(record, written_s if num_steps == 0 else None)
            elif record.kind == "eval" and record.metric is not None and record.value is not None:
                where = {"step": record.step or self._stream.last_step, "epoch": record.epoch, "time_s": None}
                made.append({"kind": Kind.EVAL, **where, "metric": record.metric, "value": record.value})
        return made

    def _step(self, record: LogRecord, came_s: float | None) -> list[Json]:
        last, self._last = self._last, _Line(step=record.step, epoch=record.epoch, came_s=came_s)
        num_iterations = _iterations_since(last, record)
        clock_s = self._clock_s(last, came_s) if num_iterations is not None else None
        count = num_iterations or 1
        batch, rate = record.samples or self._global_batch(), self._global_rate(record)
        if clock_s is not None:
            seconds, rate = clock_s, None if batch else rate
        elif record.seconds is not None:
            seconds = record.seconds * count
        elif rate is not None:
            seconds = batch * count / rate if batch else 1.0  # without a batch one record weighs as much as another
        else:
            return []
        if rate is None and batch is None:
            self.unit = "steps"
            self._warnings["batch-unknown"] = _BATCH_UNKNOWN
        elif self.unit != "steps":
            self.unit = record.unit or self.facts.unit or (self._dialect.unit if self._dialect else self.unit)
        samples = rate * seconds if rate is not None else (batch or 1.0) * count
        made: Json = {"kind": Kind.STEP, "step": record.step, "seconds": seconds, "samples": samples}
        return [made if record.loss is None else {**made, "loss": record.loss}]

    @property
    def _dialect(self) -> Dialect | None:
        return self._stream.dialect

    def _clock_s(self, last: _Line | None, came_s: float | None) -> float | None:
        """Since the line before, where that is better than what is printed: of one iteration only, or a running mean."""
        dialect = self._dialect
        if last is None or last.came_s is None or came_s is None or came_s <= last.came_s:
            return None
        is_better = dialect is not None and (dialect.covers == "step" or dialect.is_cumulative)
        return came_s - last.came_s if is_better else None

    def _global_batch(self) -> float | None:
        facts = self.facts
        if facts.batch_size_per_device is not None and facts.devices is not None:
            return float(facts.batch_size_per_device * facts.devices)
        return facts.global_batch_size

    def _global_rate(self, record: LogRecord) -> float | None:
        facts = self.facts
        scope = record.scope or (self._dialect.scope if self._dialect else None)
        if record.rate is None or scope == "global" or facts.devices == 1:
            return record.rate
        if scope == "device" and facts.devices is not None:
            return record.rate * facts.devices
        if scope == "node" and facts.nodes is not None:
            return record.rate * facts.nodes
        self._warnings["scope-unknown"] = _SCOPE_UNKNOWN
        return None


_BATCH_UNKNOWN = "the output does not tell the batch, so the speed is in steps; give --batch-size N (per device)"
_SCOPE_UNKNOWN = "the output does not tell whether its rates are of one device or of all; they are not used"


def _iterations_since(last: _Line | None, record: LogRecord) -> int | None:
    """None where there is no line before, or it is of another epoch: between them may lie an evaluation."""
    if last is None or last.step is None or record.step is None or last.epoch != record.epoch:
        return None
    return record.step - last.step if record.step > last.step else None
