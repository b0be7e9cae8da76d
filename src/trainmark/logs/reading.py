"""Read one file completely: records into a spool, facts, evaluations, stated speeds, warnings."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np

from trainmark.logs.columns import FIELDS, Rows
from trainmark.logs.dialect import Dialect, Meaning
from trainmark.logs.facts import resolve
from trainmark.logs.noise import FIRST_KNOWN_S
from trainmark.logs.opening import LogFile
from trainmark.logs.paths import facts_of_path
from trainmark.logs.record import Facts, LogRecord, Scope
from trainmark.logs.scale import Scale, find_scale
from trainmark.logs.spool import Spool, absent
from trainmark.logs.stream import LogStream
from trainmark.logs.timing import Basis, choose_basis
from trainmark.messages.logs import (
    damaged,
    edited_times,
    generic_reading,
    includes_validation,
    median_not_mean,
    no_end,
    no_time_printed,
    sampled_steps,
    several_ranks,
    smoothed_not_mean,
)
from trainmark.messages.message import Message

_MAX_EVALS = 100_000
_NUM_FIRSTS = 64
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
    has_totals: bool = False
    """Means or totals since the start, beside the value of the record."""
    has_times: bool = False
    has_steps: bool = False
    includes_eval: bool = False
    """The time of a record covers an evaluation too."""
    firsts: list[tuple[float, float]] = field(default_factory=list)
    """Step and epoch of the first records; NaN if unknown."""
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

    def add_rows(self, rows: Rows, peak_memory_bytes: int | None = None) -> None:
        """Steps of the same form as the previous ones, so unit and fields are known."""
        self.spool.add_rows(rows)
        self._note_memory(peak_memory_bytes)
        last_step = absent(float(rows[-1, FIELDS.index("step")]))
        self.last_step = None if last_step is None else int(last_step)
        times = rows[:, FIELDS.index("time_s")]
        times = times[~np.isnan(times)]
        if len(times):
            self.last_time_s = float(times[-1])
            self.first_time_s = self.first_time_s if self.first_time_s is not None else float(times[0])

    def _add_step(self, record: LogRecord) -> None:
        self.spool.add(record)
        self._note_memory(record.memory_bytes)
        if record.kind == "trace":
            return
        if len(self.firsts) < _NUM_FIRSTS:
            self._note_first(record)
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
        self.has_totals = self.has_totals or record.mean_s is not None or record.total_s is not None
        self.includes_eval = self.includes_eval or record.includes_eval

    def _note_memory(self, num_bytes: int | None) -> None:
        if num_bytes is not None and (self.peak_memory_bytes is None or num_bytes > self.peak_memory_bytes):
            self.peak_memory_bytes = num_bytes

    def _note_first(self, record: LogRecord) -> None:
        step, epoch = (math.nan if value is None else float(value) for value in (record.step, record.epoch))
        self.firsts.append((step, epoch))
        self.has_steps = self.has_steps or record.step is not None
        self.has_times = self.has_times or record.time_s is not None

    @property
    def prints_every_step(self) -> bool:
        """Judged by the first records: the next one of an epoch is the next step."""
        apart = self._steps_apart()
        return bool(apart) and apart.count(1) > 0.9 * len(apart)

    @property
    def steps_per_record(self) -> int | None:
        """From one record to the next, most of the time; judged by the first records."""
        apart = self._steps_apart()
        return int(statistics.median_low(apart)) if apart else None

    def _steps_apart(self) -> list[float]:
        return [two[0] - one[0] for one, two in itertools.pairwise(self.firsts) if two[0] > one[0]]


@dataclass(frozen=True, kw_only=True)
class ReadLog:
    path: PurePath
    sha256: str
    num_bytes: int
    dialect: Dialect
    confidence: float
    facts: Facts
    scale: Scale
    basis: Basis
    gathered: Gathered
    warnings: tuple[Message, ...]


def read_log(
    file: LogFile, dialects: Sequence[Dialect], *, given: Facts, shown: PurePath | None = None
) -> ReadLog | None:
    """None if no line of the file was recognised. The caller closes `gathered.spool`."""
    gathered = Gathered()
    stream = LogStream(dialects, sink=gathered)
    try:
        _feed(stream, file)
        if stream.dialect is not None and stream.was_replaced:
            gathered.spool.close()
            gathered = Gathered()
            stream = LogStream((stream.dialect,), sink=gathered)
            _feed(stream, LogFile(file.path))
        if stream.dialect is None:
            gathered.spool.close()
            return None
        return _conclude(file, stream, stream.dialect, gathered, given, shown or file.path)
    except BaseException:
        gathered.spool.close()
        raise


def _feed(stream: LogStream, file: LogFile) -> None:
    for block in file.blocks():
        stream.feed(block)
    stream.close()


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
        has_seconds=gathered.has_seconds or gathered.has_totals,
        has_samples=gathered.has_samples,
        unit=gathered.unit,
    )
    basis = choose_basis(
        dialect.meaning,
        has_totals=gathered.has_totals,
        has_times=gathered.has_times,
        has_steps=gathered.has_steps,
        prints_every_step=gathered.prints_every_step,
    )
    if (
        basis is Basis.CLOCK
        and gathered.has_rates
        and not gathered.has_seconds
        and scale.global_batch is None
        and not gathered.has_samples
    ):
        basis = Basis.PRINTED  # without the work of a step, its time gives no rate
    return ReadLog(
        path=shown,
        sha256=file.sha256,
        num_bytes=file.num_bytes,
        dialect=dialect,
        confidence=stream.confidence,
        facts=resolved.facts,
        scale=scale,
        basis=basis,
        gathered=gathered,
        warnings=(
            *resolved.warnings,
            *scale.warnings,
            *warn_of_meaning(dialect, basis),
            *_warn_of_gaps(dialect, basis, gathered),
            *_warnings(file, stream, gathered),
        ),
    )


def warn_of_meaning(dialect: Dialect, basis: Basis) -> list[Message]:
    """A number that is not what a throughput needs, and nothing better in the log."""
    found = [generic_reading(dialect=dialect.name)] if dialect.is_generic else []
    if basis is Basis.PRINTED and dialect.meaning is Meaning.MEDIAN:
        found.append(median_not_mean())
    if basis is Basis.PRINTED and dialect.meaning is Meaning.SMOOTHED and not dialect.is_generic:
        found.append(smoothed_not_mean())
    if basis is Basis.PRINTED and dialect.meaning is Meaning.NONE:
        found.append(no_time_printed())
    return found


def _warn_of_gaps(dialect: Dialect, basis: Basis, gathered: Gathered) -> list[Message]:
    """The time of single steps, with steps between them that nothing is known about."""
    every = gathered.steps_per_record
    is_sampled = basis is Basis.PRINTED and dialect.meaning is Meaning.STEP and every is not None and every > 1
    return [sampled_steps(every=every)] if is_sampled and every is not None else []


def _warnings(file: LogFile, stream: LogStream, gathered: Gathered) -> list[Message]:
    found = []
    if file.is_damaged:
        found.append(damaged())
    if gathered.includes_eval:
        found.append(includes_validation())
    if stream.num_other_ranks:
        found.append(several_ranks(count=stream.num_other_ranks))
    begin = gathered.moments.get("test_begin")
    if begin is not None and begin.time_s is not None and gathered.first_time_s is not None:
        apart_s = abs(begin.time_s - gathered.first_time_s)
        if apart_s > _MAX_ZONE_S and gathered.first_time_s >= FIRST_KNOWN_S:
            found.append(edited_times(days=apart_s / 86400))
    if begin is not None and "test_finish" not in gathered.moments:
        found.append(no_end())
    return found


def _with_step(record: LogRecord, step: int | None) -> LogRecord:
    return record if record.step is not None or step is None else replace(record, step=step)
