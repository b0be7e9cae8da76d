"""Quantities carry their unit; every number and every foreign text that a person reads is made fit for it here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from types import NoneType
from typing import Any

ABSENT = "–"
"""Shown in a table where nothing was measured: absent is never 0 and never blank."""


_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: object) -> str:
    """Text from a stranger's path, log or suite, with nothing that drives a terminal or turns the reading direction."""
    said = str(text)
    return said if said.isprintable() else _UNSAFE.sub("\ufffd", said)


_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def escape_non_ascii(text: str) -> str:
    r"""As JSON does: `中` -> `\u4e2d`, and a character beyond U+FFFF as two."""
    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)


_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def to_json(value: Any, *, indent: int | None = None, is_ascii: bool = False, is_finite: bool = True) -> str:
    """JSON for stdout or an export: what drives a terminal or turns the reading direction is escaped, not lost.

    NaN and infinities, which JSON does not have, are an error, or null if `is_finite` is False; only with an indent.
    """
    if indent == 1 and not is_ascii:
        text = _indent(value, "\n", _LITERALS if is_finite else _LITERALS_OR_NULL)
    else:
        text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, allow_nan=False)
    # JSON itself escapes the controls below U+0020; these can stand only inside its strings.
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _indent(value: Any, line_end: str, literals: Mapping[type, Callable[[Any], str]]) -> str:
    """As json.dumps with an indent of 1, which has no fast version in Python: a quarter of its time."""
    if isinstance(value, dict) and value:
        inner = f"{line_end} "
        items = [
            f"{inner}{_encode_key(key)}: "
            + (literals[kind](item) if (kind := type(item)) in literals else _indent(item, inner, literals))
            for key, item in value.items()
        ]
        return f"{{{','.join(items)}{line_end}}}"
    if isinstance(value, (list, tuple)) and value:
        inner = f"{line_end} "
        items = [
            inner + (literals[kind](item) if (kind := type(item)) in literals else _indent(item, inner, literals))
            for item in value
        ]
        return f"[{','.join(items)}{line_end}]"
    for kind in (str, float):  # enumerations of texts, numbers of numpy
        if isinstance(value, kind):
            return literals[kind](value)
    return json.dumps(value, allow_nan=False)


def _encode_key(key: Any) -> str:
    return encode_basestring(key if isinstance(key, str) else json.dumps(key))


def _encode_float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written as JSON")
    return float.__repr__(value)


_LITERALS: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    float: _encode_float,
    int: int.__repr__,
    bool: {True: "true", False: "false"}.__getitem__,
    NoneType: lambda _: "null",
}
_LITERALS_OR_NULL = {**_LITERALS, float: lambda value: float.__repr__(value) if math.isfinite(value) else "null"}


def format_number(value: float | None, *, digits: int = 4) -> str:
    """Significant digits with thousands separators, never in exponent form: 6953.87 -> 6,954, 3.06512 -> 3.065."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


def format_count(value: float, plural: str) -> str:
    """A number of things, named by their plural, as units are: 3 runs, 1 run, 0.5 epochs, 1 other process."""
    number = f"{value:g}" if isinstance(value, float) else str(value)
    if number != "1":
        return f"{number} {plural}"
    return f"1 {plural.removesuffix('es' if plural.endswith('sses') else 's')}"


def format_rate(value: float | None, unit: str) -> str:
    return ABSENT if value is None else f"{format_number(value)} {unit}/s"


def format_interval(interval: tuple[float, float] | None, *, digits: int = 4) -> str:
    if interval is None:
        return ABSENT
    low, high = interval
    return f"{format_number(low, digits=digits)} … {format_number(high, digits=digits)}"


def format_plus_minus(fraction: float | None) -> str:
    """A relative half width: 0.0042 -> ±0.42%."""
    if fraction is None or not math.isfinite(fraction):
        return ABSENT
    percent = 100 * fraction
    return f"±{percent:.2f}%" if percent < 10 else f"±{percent:.0f}%"


def format_seconds(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ABSENT
    if value < 0.9995:
        return f"{value * 1000:.3g} ms"
    if value < 120:
        return f"{value:.3g} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def format_range_of_seconds(low: float, high: float) -> str:
    """45 to 90 s, 2 to 5 min, 1.5 to 3 h; rounded, since it is an estimate"""
    for unit, seconds in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if high >= 2 * seconds or unit == "s":
            texts = [_round_time(bound / seconds, is_whole=unit == "s") for bound in (low, high)]
            return f"{' to '.join(dict.fromkeys(texts))} {unit}"
    raise AssertionError


def _round_time(value: float, *, is_whole: bool) -> str:
    return f"{value:.0f}" if is_whole or value >= 10 else f"{value:.1f}".removesuffix(".0")


_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b?|b)?", re.IGNORECASE)


def parse_bytes(text: str) -> int | None:
    """8000000000, 8GB (of 1000) or 8GiB (of 1024); None for anything else."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        return None
    power = "kmgt".find(match[2].lower()) + 1 if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def format_bytes(value: float | None) -> str:
    if value is None:
        return ABSENT
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
