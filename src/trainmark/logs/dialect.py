"""What a dialect is: data about the lines of one family of programs, and small functions from a match to a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainmark.logs.record import LogRecord, Scope

Match = re.Match[bytes]
Found = LogRecord | Mapping[str, Any] | None
"""What a probe makes of a line: a record, facts by name, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A literal that is looked for in whole blocks at the speed of memory, and what to do with a line that holds it.

    `pattern` is tried on that line alone, so it may be as slow as it likes.
    """

    anchor: bytes
    pattern: re.Pattern[bytes]
    read: Callable[[Match], Found]
    where: Literal["everywhere", "ends"] = "everywhere"
    """`ends`: only in the first and the last part of a log, where configurations stand."""
    strength: int = 2
    """Of the facts it gives; see `Claim`."""
    limit: int | None = None
    """At most so many lines; None: all of them."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    name: str
    summary: str
    framework: str | None
    """None where the family is used with several."""
    steps: tuple[Probe, ...]
    """Lines that are records; a line of a dialect is recognised by one of these."""
    others: tuple[Probe, ...] = ()
    """Evaluations, statements about the whole run, facts that only this family prints."""
    scope: Scope | None = "global"
    """Of what its rates speak. None: its lines do not tell and nothing else does, so no rate can be made global."""
    unit: str = "samples"
    covers: Literal["interval", "step"] = "interval"
    """Whether a printed number is a mean since the print before, or that of one iteration."""
    is_cumulative: bool = False
    """Printed times are means since the start: only the last one counts, and their spread says nothing."""
    counts_batches: bool = False
    """Its rates count batches or steps, not samples."""
    priority: int = 0
    """Decides between dialects that recognise equally many lines."""


def number(text: bytes | None) -> float | None:
    """None for what is no finite number of a sensible size; never an exception."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if -1e300 < value < 1e300 else None


def whole(text: bytes | None) -> int | None:
    if text is None or len(text) > 18:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def group(match: Match, name: str) -> bytes | None:
    """None where the pattern has no such group or it took no part."""
    return match[name] if name in match.re.groupindex else None


def read_step(match: Match) -> LogRecord | None:
    """The usual reader of a step line, by the names of the pattern's groups."""
    seconds, rate = number(group(match, "seconds")), number(group(match, "rate"))
    if not (seconds and seconds > 0) and not (rate and rate > 0):
        return None
    unit = group(match, "unit")
    memory = number(group(match, "memory_mb"))
    return LogRecord(
        kind="step",
        step=whole(group(match, "step")),
        epoch=number(group(match, "epoch")),
        seconds=seconds if seconds and seconds > 0 else None,
        rate=rate if rate and rate > 0 else None,
        samples=number(group(match, "samples")),
        unit=UNITS.get(unit.lower()) if unit else None,
        loss=number(group(match, "loss")),
        memory_bytes=int(memory * 2**20) if memory and 0 < memory < 1e9 else None,
    )


UNITS = {
    b"img": "images", b"images": "images", b"image": "images", b"imgs": "images", b"samples": "samples",
    b"sample": "samples", b"seq": "sequences", b"sequences": "sequences", b"sequence": "sequences",
    b"tokens": "tokens", b"token": "tokens", b"words": "words", b"word": "words", b"example": "examples",
    b"examples": "examples", b"instance": "samples", b"instances": "samples", b"steps": "steps", b"step": "steps",
    b"clips": "clips", b"videos": "clips", b"sentences": "sentences",
}  # fmt: skip
