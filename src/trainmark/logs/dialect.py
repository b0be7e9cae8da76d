"""A dialect: the log format of one family of programs, as data plus small functions from a match to a record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainmark.logs.record import LogRecord, Scope, new_record

Groups = dict[str, bytes]
"""The named groups that matched."""

Found = LogRecord | Mapping[str, Any] | None
"""What a probe reads from a line: a record, facts by name, or nothing."""

NUMBER = rb"[-+]?\d[\d.]{0,24}(?:(?:,\d{3}(?!\d)){1,4}(?:\.\d{1,12})?)?(?:[eE][-+]?\d{1,3})?"
"""Thousands separators are allowed: 1,234.5 is never read as 1.

Every repetition in these patterns is bounded, so the cost of a line is proportional to its length.
"""


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


def patterns(*texts: bytes) -> tuple[re.Pattern[bytes], ...]:
    return tuple(re.compile(text) for text in texts)


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
    covers: Literal["interval", "step"] = "interval"
    """Whether a printed number is a mean since the previous line or the value of one iteration."""
    is_cumulative: bool = False
    """Printed times are means since the start: only the last one counts, and their spread is meaningless."""
    repeats_lines: bool = False
    """A progress bar that is redrawn: the same iteration printed twice is one record."""
    default_precision: str | None = None
    """Precision of a log that does not state one, if programs of this family always state any other."""
    priority: int = 0
    """A dialect with a lower priority is used only if no other one recognises a line."""


def number(text: bytes | None) -> float | None:
    """None unless the text is a finite number of a sensible size. Never raises."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        head, comma, _ = text.partition(b",")
        if not comma:
            return None
        # 1,234.5 is one number; 0.5,123 is two.
        return number(head if b"." in head else text.replace(b",", b""))
    return value if -1e300 < value < 1e300 else None


def whole(text: bytes | None) -> int | None:
    if text is None or len(text) > 18:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def finite(value: Any) -> float | None:
    """A number in a JSON document, possibly written as text; None for anything else."""
    if isinstance(value, str):
        return number(value.encode(errors="replace")[:40])
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and -1e300 < value < 1e300 else None


def read_object(text: bytes) -> dict[str, Any]:
    """The JSON object at the start of the text; empty if there is none."""
    try:
        value = json.JSONDecoder().raw_decode(text.decode(errors="replace"))[0]
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_step(groups: Groups) -> LogRecord | None:
    """Read a step line by the names of its groups."""
    fields: dict[str, Any] = {"kind": "step"}
    for name, text in groups.items():
        convert = _STEP_FIELDS.get(name)
        if convert is not None:
            fields[name] = convert(text)
    for name in ("seconds", "rate"):
        value = fields.get(name)
        if value is not None and value <= 0:
            fields[name] = None
    if fields.get("seconds") is None and fields.get("rate") is None:
        return None
    if "lr" in groups:
        fields["learning_rate"] = number(groups["lr"])
    if "unix_s" in groups:
        fields["time_s"] = number(groups["unix_s"])
    if "memory_mb" in groups:
        memory = number(groups["memory_mb"])
        fields["memory_bytes"] = int(memory * 2**20) if memory and 0 < memory < 1e9 else None
    return new_record(fields)


def read_stated(name: str) -> Callable[[Groups], LogRecord | None]:
    """Read a speed that the log states for the whole run."""

    def read(groups: Groups) -> LogRecord | None:
        rate = number(groups.get("rate"))
        unit = UNITS.get(groups.get("unit", b"").lower())
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


UNITS = {
    b"img": "images", b"images": "images", b"image": "images", b"imgs": "images", b"samples": "samples",
    b"sample": "samples", b"seq": "sequences", b"sequences": "sequences", b"sequence": "sequences",
    b"tokens": "tokens", b"token": "tokens", b"words": "words", b"word": "words", b"example": "examples",
    b"examples": "examples", b"instance": "samples", b"instances": "samples", b"steps": "steps", b"step": "steps",
    b"clips": "clips", b"videos": "clips", b"sentences": "sentences",
}  # fmt: skip


def _unit(text: bytes) -> str | None:
    return UNITS.get(text) or UNITS.get(text.lower())


_STEP_FIELDS: dict[str, Callable[[bytes], Any]] = {
    "step": whole,
    "epoch": number,
    "seconds": number,
    "rate": number,
    "samples": number,
    "unit": _unit,
    "loss": number,
}
