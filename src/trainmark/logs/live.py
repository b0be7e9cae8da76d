"""Read the output of a running command as step records, in seconds and samples of all devices.

While a command runs, the arrival time of each line is known. Many scripts print the time of one iteration in ten, or
only three digits of it; the time between two lines covers all ten iterations with the precision of the clock.

When it has finished, the dialect of most lines and all facts are known. `reread` reads the output again with both, so
that all records of a run have one dialect and count the same thing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainmark.logs.columns import Rows
from trainmark.logs.dialect import Dialect, Meaning
from trainmark.logs.facts import resolve
from trainmark.logs.opening import LogFile
from trainmark.logs.reading import warn_of_meaning
from trainmark.logs.record import Facts, LogRecord
from trainmark.logs.scale import find_scale, name_unit
from trainmark.logs.spool import to_row
from trainmark.logs.stream import LogStream
from trainmark.logs.timing import Basis, Differences, Floats, Printed, Timed, choose_basis, printed_values
from trainmark.messages.message import Message
from trainmark.runfolder.files import Json
from trainmark.runfolder.records import Kind


@dataclass(frozen=True, kw_only=True)
class _Line:
    """The previous step line."""

    step: int
    epoch: float | None
    came_s: float
    """By the modification time of the file."""


@dataclass(frozen=True, kw_only=True)
class _Clocked:
    """The measured time of a step line."""

    seconds: float
    num_steps: int


class _Nowhere:
    """Discards records while only the dialect and the facts are wanted."""

    def add(self, record: LogRecord) -> None:
        pass

    def add_rows(self, rows: Rows, peak_memory_bytes: int | None = None) -> None:
        pass


class LiveLog:
    """`given`: options of the user, which count before what the log says."""

    def __init__(self, dialects: Sequence[Dialect], given: Facts) -> None:
        self.unit = "samples"
        """What the records count so far."""
        self.stated: dict[str, Json] = {}
        """Speeds that the log states for the whole run, by name."""
        self._dialects = tuple(dialects)
        self._stream = LogStream(dialects)
        self._given = given
        self._final: Facts | None = None
        """Warnings, known when the log is finished."""
        self._used: set[tuple[object, ...]] = set()
        """The facts used to scale records so far."""
        self._last: _Line | None = None
        self._printed: Printed | None = None
        self._differences: Differences | None = None
        self._warnings: dict[str, Message] = {}

    @property
    def dialect(self) -> str | None:
        return self._stream.dialect.name if self._stream.dialect is not None else None

    @property
    def sample_name(self) -> str | None:
        """What the dialect calls its samples, also where the log does not tell how many there are in a step."""
        dialect = self._stream.dialect
        return dialect.unit if dialect is not None and dialect.unit != "samples" else None

    @property
    def facts(self) -> Facts:
        if self._final is not None:
            return self._final
        return resolve(self._stream.claims, Facts(), self._given, self._stream.dialect).facts

    def feed(self, chunk: bytes, written_s: float | None) -> list[Json]:
        """`written_s` is when the end of the chunk was written."""
        return self._convert(self._stream.feed(chunk), written_s)

    def close(self) -> list[Json]:
        """Read an unfinished last line, and collect the warnings."""
        rest = self._convert(self._stream.close(), None)
        return [*rest, *({"kind": Kind.WARNING, **warning.to_json()} for warning in self._warnings.values())]

    def reread(self, output: Path, looks: Iterable[tuple[int, float | None]]) -> Iterator[Json] | None:
        """All records again, from the finished output; None if they would be the same.

        `looks`: size and time of each chunk that was fed, so that lines keep their arrival times. The state of this
        log changes when the last record is consumed.
        """
        if self._stream.dialect is None:
            return None
        stream = LogStream(self._dialects, sink=_Nowhere())
        for block in LogFile(output).blocks():
            stream.feed(block)
        stream.close()
        if stream.dialect is None:
            return None
        facts = resolve(stream.claims, Facts(), self._given, stream.dialect).facts
        if stream.dialect.name == self.dialect and self._used <= {_scaling(facts)}:
            return None
        return self._read_again(output, looks, stream.dialect, facts)

    def _read_again(
        self, output: Path, looks: Iterable[tuple[int, float | None]], dialect: Dialect, facts: Facts
    ) -> Iterator[Json]:
        again = LiveLog((dialect,), self._given)
        again._final = facts
        with output.open("rb") as file:
            for num_bytes, written_s in looks:
                yield from again.feed(file.read(num_bytes), written_s)
        yield from again.close()
        self.__dict__.update(again.__dict__)

    def _convert(self, found: Sequence[LogRecord], written_s: float | None) -> list[Json]:
        """Lines that arrive together share the arrival time of the last one."""
        if not found:
            return []
        facts, made = self.facts, list[Json]()
        clocks = self._clock(found, written_s)
        for record, clocked in zip(found, clocks, strict=True):
            if record.kind == "step":
                made += self._step(record, facts, clocked)
            elif record.kind == "eval":
                if record.metric is None or record.value is None:
                    continue
                step = record.step if record.step is not None else self._stream.last_step
                where: Json = {"step": step, "epoch": record.epoch, "time_s": None}
                made.append({"kind": Kind.EVAL, **where, "metric": record.metric, "value": record.value})
            elif record.kind == "stated" and record.name is not None:
                self.stated[record.name] = {"value": record.rate, "unit": record.unit}
        last = next((record for record in reversed(made) if record["kind"] == Kind.STEP), None)
        if last is not None and written_s is not None:
            last["unix_s"] = written_s  # to compare the times that it prints with the clock
        return made

    def _clock(self, found: Sequence[LogRecord], written_s: float | None) -> list[_Clocked | None]:
        """Measured time of each step line since the previous one; None if unknown.

        Lines that arrive together share the time since the last read. The time across two epochs, or across an
        evaluation, is unknown.
        """
        places = [place for place, record in enumerate(found) if record.kind in ("step", "eval")]
        last, self._last = self._last, None
        clocks: list[_Clocked | None] = [None] * len(found)
        if not places:
            self._last = last
            return clocks
        end = found[places[-1]]
        if written_s is not None and end.kind == "step" and end.step is not None:
            self._last = _Line(step=end.step, epoch=end.epoch, came_s=written_s)
        if last is None or self._last is None or last.came_s >= self._last.came_s:
            return clocks
        counts, before = list[int](), last.step
        for place in places:
            record = found[place]
            if record.kind != "step" or record.step is None or record.epoch != last.epoch or record.step <= before:
                return clocks
            counts.append(record.step - before)
            before = record.step
        weights = _weigh([found[place] for place in places], counts)
        seconds, total = self._last.came_s - last.came_s, math.fsum(weights)
        for place, count, weight in zip(places, counts, weights, strict=True):
            clocks[place] = _Clocked(seconds=seconds * (weight / total), num_steps=count)
        return clocks

    def _step(self, record: LogRecord, facts: Facts, clocked: _Clocked | None) -> list[Json]:
        dialect = self._stream.dialect
        assert dialect is not None
        scope = record.scope or dialect.scope
        has_rate = record.rate is not None
        has_seconds = any(value is not None for value in (record.seconds, record.mean_s, record.total_s))
        has_samples = record.samples is not None
        scale = find_scale(
            dialect,
            facts,
            scope,
            has_rates=has_rate,
            has_seconds=has_seconds,
            has_samples=has_samples,
            unit=record.unit,
        )
        self._used.add(_scaling(facts))
        self._warnings |= {warning.code: warning for warning in scale.warnings}
        self.unit = name_unit(
            dialect, facts, scale, record.unit, has_rates=has_rate, has_seconds=True, has_samples=has_samples
        )
        row = to_row(record)
        timed, basis = self._time(row, dialect, record)
        if clocked is not None and dialect.meaning is not Meaning.WINDOW:
            # The clock covers all steps since the line before, with more digits than any line.
            timed = Timed(seconds=_one(clocked.seconds), num_steps=_one(clocked.num_steps), rounding_s=_one(0.0))
            basis = Basis.CLOCK
        made = scale.convert(timed=timed, basis=basis, **printed_values(row))
        seconds, samples = float(made.seconds[0]), float(made.samples[0])
        if math.isnan(seconds):
            return []
        if basis is Basis.PRINTED:
            self._warnings |= {warning.code: warning for warning in warn_of_meaning(dialect, basis)}
        step: Json = {"kind": Kind.STEP, "step": record.step, "seconds": seconds, "samples": samples}
        digits = (record.half_digit or 0.0) * seconds if basis is Basis.PRINTED else float(timed.rounding_s[0])
        step["rounding_s"] = digits
        return [step if record.loss is None else {**step, "loss": record.loss}]

    def _time(self, row: Rows, dialect: Dialect, record: LogRecord) -> tuple[Timed, Basis]:
        """Without a clock: as printed, or the difference to the total of the line before."""
        has_totals = record.mean_s is not None or record.total_s is not None
        basis = choose_basis(
            dialect.meaning,
            has_totals=has_totals,
            has_times=False,
            has_steps=record.step is not None,
            prints_every_step=False,
        )
        if basis is Basis.PRINTED or (dialect.meaning is Meaning.STEP and has_totals):
            self._printed = self._printed or Printed(covers_interval=dialect.covers == "interval")
            return self._printed.read(row), Basis.PRINTED
        if self._differences is None:
            self._differences = Differences(meaning=dialect.meaning, first_step=dialect.first_step)
        return self._differences.read(row, is_end=False), basis


def _one(value: float) -> Floats:
    return np.array([value], dtype=np.float64)


def _weigh(lines: Sequence[LogRecord], counts: Sequence[int]) -> list[float]:
    """Shares in proportion to the printed times if each line is one step; otherwise equal shares."""
    printed = [line.seconds or 0.0 for line in lines]
    if max(counts) == 1 and min(printed) > 0 and math.isfinite(math.fsum(printed)):
        return printed
    return [float(count) for count in counts]


def _scaling(facts: Facts) -> tuple[object, ...]:
    """The facts that affect records."""
    return facts.devices, facts.nodes, facts.batch_size_per_device, facts.global_batch_size, facts.unit
