"""Numbers as programs print them: value, last digit, unit and suffix. Nothing here raises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

NUMBER = rb"[-+]?\d[\d.]{0,24}(?:(?:,\d{3}(?!\d)){1,4}(?:\.\d{1,12})?)?(?:[eE][-+]?\d{1,3})?"
"""Thousands separators are allowed: 1,234.5 is never read as 1.

Every repetition in these patterns is bounded, so the cost of a line is proportional to its length.
"""

CLOCK = rb"(?:\d{1,4} days?, )?(?:\d{1,5}:)?\d{1,5}:\d\d(?:\.\d{1,6})?"
"""A duration such as 1:02:03, 02:03 or 1 day, 2:03:04."""

SUFFIXES = {b"": 1.0, b"k": 1e3, b"K": 1e3, b"M": 1e6, b"G": 1e9}

UNITS = {
    b"img": "images", b"images": "images", b"image": "images", b"imgs": "images", b"samples": "samples",
    b"sample": "samples", b"seq": "sequences", b"seqs": "sequences", b"sequences": "sequences",
    b"sequence": "sequences", b"tok": "tokens", b"toks": "tokens", b"tokens": "tokens", b"token": "tokens",
    b"words": "words", b"word": "words", b"example": "examples", b"examples": "examples", b"instance": "samples",
    b"instances": "samples", b"steps": "steps", b"step": "steps", b"it": "iterations", b"its": "iterations",
    b"iter": "iterations", b"iters": "iterations", b"iteration": "iterations", b"iterations": "iterations",
    b"batch": "iterations", b"batches": "iterations", b"clips": "clips", b"clip": "clips", b"videos": "clips",
    b"video": "clips", b"sentences": "sentences", b"sentence": "sentences", b"frames": "frames", b"frame": "frames",
}  # fmt: skip

ITERATIONS = ("iterations", "steps")
"""Units that count batches, not what is in them."""

TIME_UNITS = {
    b"s": 1.0, b"sec": 1.0, b"secs": 1.0, b"second": 1.0, b"seconds": 1.0, b"ms": 1e-3, b"msec": 1e-3,
    b"us": 1e-6, "µs".encode(): 1e-6, "μs".encode(): 1e-6, b"ns": 1e-9, b"min": 60.0, b"m": 60.0, b"h": 3600.0,
}  # fmt: skip


def number(text: bytes | None) -> float | None:
    """None unless the text is a finite number of a sensible size."""
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


def half_digit(text: bytes) -> float:
    """Half of the last digit of a printed number: 0.05 for 12.3, 0.5 for 1,234, 5e-6 for 1.20e-3."""
    mantissa, _, exponent = text.lower().partition(b"e")
    decimals = len(mantissa.partition(b".")[2])
    power = whole(exponent) or 0 if exponent else 0
    return 0.5 * 10.0 ** max(-300, min(300, power - decimals))


def seconds_of_clock(text: bytes) -> tuple[float, float] | None:
    """Seconds of 1:02:03, and half of its last digit. Programs cut whole seconds off, so half a second is added."""
    days, _, rest = text.rpartition(b", ")
    parts = [number(part) for part in rest.split(b":")]
    if not parts or any(part is None for part in parts):
        return None
    value = 0.0
    for part in parts:
        value = value * 60.0 + (part or 0.0)
    value += 86400.0 * (whole(days.split()[0]) or 0) if days else 0.0
    half = half_digit(rest.rpartition(b":")[2])
    return value + (half if half == 0.5 else 0.0), half


def unit_of(text: bytes) -> str | None:
    return UNITS.get(text) or UNITS.get(text.lower())


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


def patterns(*texts: bytes) -> tuple[re.Pattern[bytes], ...]:
    return tuple(re.compile(text) for text in texts)


Convert = Callable[[bytes], Any]
