"""Read one file completely: records into a spool, facts, evaluations, stated speeds, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np

from trainmark.logs.columns import FIELDS, Rows
from trainmark.logs.dialect import Dialect
from trainmark.logs.facts import resolve
from trainmark.logs.opening import LogFile
from trainmark.logs.paths import facts_of_path
from trainmark.logs.record import Facts, LogRecord, Scope
from trainmark.logs.scale import Scale, find_scale
from trainmark.logs.spool import Spool
from trainmark.logs.stream import LogStream
from trainmark.messages.logs import damaged, edited_times, no_end, several_ranks
from trainmark.messages.message import Message

_MAX_EVALS = 100_000
_MAX_ZONE_S = 2 * 86400
"""Clocks within one log may differ by a time zone, not by days."""


@dataclass(kw_only=True)
class Gathered:
    """What is kept while a log is read. Only evaluations grow with the length of the log."""

    spool: Spool = field(default_factory=Spool)
    evals: list[LogRecord] = field(default_factory=list)
    stated: dict[str, LogRecord] = field(default_factory=dict)
    """The last one of each name."""
    moments: dict[str, LogRecord] = field(default_factory=dict)
    """The first one of each name; for test_finish the last."""
    first_time_s: float | None = None
    last_time_s: float | None = None
    unit: str | None = None
    scope: Scope | None = None
    peak_memory_bytes: int | None = None
    has_rates: bool = False
    has_seconds: bool = False
    has_samples: bool = False
    last_step: int | None = None

    def add(self, record: LogRecord) -> None:
        if record.kind in ("step", "trace"):
            self._add_step(record)
        elif record.kind == "eval" and len(self.evals) < _MAX_EVALS:
            step = record.step if record.step is not None else self.last_step
            self.evals.append(_with_step(record, step))
        elif record.kind == "stated" and record.name:
            self.stated[record.name] = record
        elif record.kind == "moment" and record.name and self._is_news(record.name):
            self.moments[record.name] = record

    def _is_news(self, moment: str) -> bool:
        """Of several beginnings the first counts, of several ends the last."""
        return moment == "test_finish" or moment not in self.moments

    def add_rows(self, rows: Rows) -> None:
        """Steps of the same form as the previous ones, so unit and fields are known."""
        self.spool.add_rows(rows)
        self.last_step = int(rows[-1, FIELDS.index("step")])
        times = rows[:, FIELDS.index("time_s")]
        times = times[~np.isnan(times)]
        if len(times):
            self.last_time_s = float(times[-1])
            self.first_time_s = self.first_time_s if self.first_time_s is not None else float(times[0])

    def _add_step(self, record: LogRecord) -> None:
        self.spool.add(record)
        memory = record.memory_bytes
        if memory is not None and (self.peak_memory_bytes is None or memory > self.peak_memory_bytes):
            self.peak_memory_bytes = memory
        if record.kind == "trace":
            return
        if record.step is not None:
            self.last_step = record.step
        time_s = record.time_s
        if time_s is not None:
            self.last_time_s = time_s
            if self.first_time_s is None:
                self.first_time_s = time_s
        if not (self.has_rates and self.has_seconds and self.unit):
            self.unit = self.unit or record.unit
            self.scope = self.scope or record.scope
            self.has_rates = self.has_rates or record.rate is not None
            self.has_seconds = self.has_seconds or record.seconds is not None
            self.has_samples = self.has_samples or record.samples is not None


@dataclass(frozen=True, kw_only=True)
class ReadLog:
    path: PurePath
    sha256: str
    num_bytes: int
    dialect: Dialect
    confidence: float
    facts: Facts
    scale: Scale
    gathered: Gathered
    warnings: tuple[Message, ...]


def read_log(
    file: LogFile, dialects: Sequence[Dialect], *, given: Facts, shown: PurePath | None = None
) -> ReadLog | None:
    """None if no line of the file was recognised. The caller closes `gathered.spool`."""
    gathered = Gathered()
    stream = LogStream(dialects, sink=gathered)
    try:
        for block in file.blocks():
            stream.feed(block)
        stream.close()
        if stream.dialect is None:
            gathered.spool.close()
            return None
        return _conclude(file, stream, stream.dialect, gathered, given, shown or file.path)
    except BaseException:
        gathered.spool.close()
        raise


def _conclude(
    file: LogFile, stream: LogStream, dialect: Dialect, gathered: Gathered, given: Facts, shown: PurePath
) -> ReadLog:
    resolved = resolve(stream.claims, facts_of_path(shown), given, dialect)
    scope = gathered.scope or dialect.scope
    scale = find_scale(
        dialect,
        resolved.facts,
        scope,
        has_rates=gathered.has_rates,
        has_seconds=gathered.has_seconds,
        has_samples=gathered.has_samples,
    )
    return ReadLog(
        path=shown,
        sha256=file.sha256,
        num_bytes=file.num_bytes,
        dialect=dialect,
        confidence=stream.confidence,
        facts=resolved.facts,
        scale=scale,
        gathered=gathered,
        warnings=(*resolved.warnings, *scale.warnings, *_warnings(file, stream, gathered)),
    )


def _warnings(file: LogFile, stream: LogStream, gathered: Gathered) -> list[Message]:
    found = []
    if file.is_damaged:
        found.append(damaged())
    if stream.num_other_ranks:
        found.append(several_ranks(count=stream.num_other_ranks))
    begin = gathered.moments.get("test_begin")
    if begin is not None and begin.time_s is not None and gathered.first_time_s is not None:
        apart_s = abs(begin.time_s - gathered.first_time_s)
        if apart_s > _MAX_ZONE_S:
            found.append(edited_times(days=apart_s / 86400))
    if begin is not None and "test_finish" not in gathered.moments:
        found.append(no_end())
    return found


def _with_step(record: LogRecord, step: int | None) -> LogRecord:
    return record if record.step is not None or step is None else replace(record, step=step)
