"""A dialect: the log format of one family of programs, as data plus small functions from a match to a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from trainmark.logs.printed import ITERATIONS, SUFFIXES, Convert, half_digit, number, seconds_of_clock, unit_of, whole
from trainmark.logs.printed import (
    NUMBER as NUMBER,
)
from trainmark.logs.printed import patterns as patterns
from trainmark.logs.record import LogRecord, Scope, new_record

Groups = dict[str, bytes]
"""The named groups that matched."""

Found = LogRecord | Mapping[str, Any] | None
"""What a probe reads from a line: a record, facts by name, or nothing."""


class Meaning(StrEnum):
    """What a printed time or rate is. It decides how, and whether, it becomes a throughput; see `timing.py`."""

    STEP = "step"
    """Of one step, whatever was done since the previous line."""
    WINDOW = "window"
    """Mean of the steps since the previous line."""
    RUN = "since-run"
    """Mean since the run began."""
    EPOCH = "since-epoch"
    """Mean since the epoch began."""
    MEDIAN = "median"
    """Median of the last steps, which leaves out the slow ones."""
    SMOOTHED = "smoothed"
    """Moving average, which follows the speed with a delay and forgets."""
    WHOLE = "whole"
    """Mean of all that one record is about: the run, or an epoch."""
    NONE = "none"
    """No time is printed: only a clock can tell."""

    @property
    def is_since_start(self) -> bool:
        return self in (Meaning.RUN, Meaning.EPOCH)

    @property
    def is_no_mean(self) -> bool:
        """Its sum over the records is not the time that passed."""
        return self in (Meaning.MEDIAN, Meaning.SMOOTHED, Meaning.NONE)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A literal to search for in whole blocks, and how to read a line that contains it."""

    anchor: bytes
    patterns: tuple[re.Pattern[bytes], ...]
    """Searched in that line, each from its start. The first one must match, the others add groups."""
    read: Callable[[Groups], Found]
    where: Literal["everywhere", "ends"] = "everywhere"
    """`ends`: only in the first and last part of a log, where configurations are printed."""
    strength: int = 2
    """How far to trust the facts it finds; see `Claim`."""
    num_lines: int = 1
    """How many lines, starting at the literal, belong together; only in the ends of a log."""

    def search(self, line: bytes) -> Groups | None:
        first = self.patterns[0].search(line)
        if first is None:
            return None
        groups = first.groupdict()
        for pattern in self.patterns[1:]:
            more = pattern.search(line)
            if more is not None:
                groups.update(more.groupdict())
        return {name: text for name, text in groups.items() if text is not None}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    name: str
    summary: str
    framework: str | None
    """None if the programs of this family use several frameworks."""
    steps: tuple[Probe, ...]
    """Step records. A log is recognised by these lines."""
    others: tuple[Probe, ...] = ()
    """Evaluations, statements about the whole run, and facts that only this family prints."""
    scope: Scope | None = "global"
    """What its rates refer to. None: unknown, so no global rate can be computed."""
    unit: str = "samples"
    meaning: Meaning = Meaning.WINDOW
    """What the time or rate of a step line is."""
    first_step: Literal[0, 1] = 1
    """The number that it prints for the first step. With a mean since the start it tells how many steps that covers."""
    counts_samples: bool = False
    """Its step numbers count samples."""
    repeats_lines: bool = False
    """A progress bar that is redrawn: the same iteration printed twice is one record."""
    default_precision: str | None = None
    """Precision of a log that does not state one, if programs of this family always state any other."""
    priority: int = 0
    """A dialect with a lower priority is used only if no other one recognises a line."""
    is_generic: bool = False
    """Reads numbers of programs that it does not know: what they count is a guess, and the result says so."""

    @property
    def covers(self) -> Literal["interval", "step"]:
        return "interval" if self.meaning is Meaning.WINDOW else "step"


def read_step(groups: Groups) -> LogRecord | None:
    """Read a step line by the names of its groups; the names in `DURATIONS` tell unit and meaning."""
    fields: dict[str, Any] = {"kind": "step"}
    for name, text in groups.items():
        convert = _STEP_FIELDS.get(name)
        if convert is not None:
            fields[name] = convert(text)
    _read_durations(groups, fields)
    if fields.get("unit") in ITERATIONS and "rate" in fields:
        fields.setdefault("seconds", 1 / fields.pop("rate"))
        fields["unit"] = None
    if "lr" in groups:
        fields["learning_rate"] = number(groups["lr"])
    if "unix_s" in groups:
        fields["time_s"] = number(groups["unix_s"])
    if "memory_mb" in groups:
        memory = number(groups["memory_mb"])
        fields["memory_bytes"] = int(memory * 2**20) if memory and 0 < memory < 1e9 else None
    known = (fields.get(name) is not None for name in ("seconds", "rate", "mean_s", "total_s"))
    return new_record(fields) if any(known) else None


def _read_durations(groups: Groups, fields: dict[str, Any]) -> None:
    for name, text in groups.items():
        duration = DURATIONS.get(name)
        value = number(text) if duration is not None else None
        if duration is None or value is None or value <= 0:
            continue
        relative = half_digit(text) / value
        value *= duration.factor * SUFFIXES.get(groups.get("suffix", b""), 1.0) ** duration.has_suffix
        value = 1 / value if duration.is_inverse else value
        fields[duration.field] = value
        if duration.field in ("seconds", "rate"):
            fields["half_digit"] = min(relative, fields.get("half_digit", 1.0))
        else:
            fields["total_half_digit"] = relative * value
    elapsed = seconds_of_clock(groups["clock"]) if "clock" in groups else None
    if elapsed is not None and elapsed[0] > 0:
        fields["total_s"], fields["total_half_digit"] = elapsed


@dataclass(frozen=True, kw_only=True)
class Duration:
    """How a group of a step line is converted, by its name."""

    field: str
    factor: float = 1.0
    is_inverse: bool = False
    """Printed as iterations per second."""
    has_suffix: bool = False
    """A group `suffix` may hold k or M."""


DURATIONS = {
    "seconds": Duration(field="seconds"),
    "ms": Duration(field="seconds", factor=1e-3),
    "us": Duration(field="seconds", factor=1e-6),
    "its": Duration(field="seconds", is_inverse=True, has_suffix=True),
    "rate": Duration(field="rate", has_suffix=True),
    "mean": Duration(field="mean_s"),
    "mean_ms": Duration(field="mean_s", factor=1e-3),
    "mean_us": Duration(field="mean_s", factor=1e-6),
    "mean_its": Duration(field="mean_s", is_inverse=True),
    "total": Duration(field="total_s"),
    "total_ms": Duration(field="total_s", factor=1e-3),
}
"""Names of groups for times and rates; a longer name tells the unit. `clock` is a total such as 1:02:03."""


def read_stated(name: str) -> Callable[[Groups], LogRecord | None]:
    """Read a speed that the log states for the whole run."""

    def read(groups: Groups) -> LogRecord | None:
        rate = number(groups.get("rate"))
        unit = unit_of(groups.get("unit", b""))
        return LogRecord(kind="stated", name=name, rate=rate, unit=unit) if rate and rate > 0 else None

    return read


def read_eval(metric: str, *, factor: float = 1.0, is_index: bool = False) -> Callable[[Groups], LogRecord | None]:
    """Read a metric. `factor` converts a percentage to a fraction; `is_index`: epochs are counted from 0."""

    def read(groups: Groups) -> LogRecord | None:
        value = number(groups.get("value"))
        if value is None:
            return None
        step, epoch = whole(groups.get("step")), number(groups.get("epoch"))
        epoch = epoch + 1 if is_index and epoch is not None else epoch
        time_s = number(groups.get("unix_s"))
        return LogRecord(kind="eval", metric=metric, value=value * factor, step=step, epoch=epoch, time_s=time_s)

    return read


def read_wholes(groups: Groups) -> Mapping[str, Any]:
    """Read facts that are positive integers, by the names of the groups."""
    return {name: value for name, text in groups.items() if (value := whole(text)) is not None and value > 0}


_STEP_FIELDS: dict[str, Convert] = {
    "step": whole,
    "epoch": number,
    "samples": number,
    "unit": unit_of,
    "loss": number,
}
