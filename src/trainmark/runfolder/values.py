"""Checks on values of JSON files that anyone may have written: each gives the value, or None if it is unusable."""

from __future__ import annotations

import json
from typing import Any

from trainmark.runfolder.files import Json

MAX_FLOAT = 1e300
"""Leaves room to compute with."""


def as_text(value: Any) -> str | None:
    """Lone surrogates are replaced, so that the text can be written again in any encoding."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else None


def as_int(value: Any) -> int | None:
    """Only what fits into 64 bits, as the index stores it."""
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if fits else None


def as_float(value: Any) -> float | None:
    """Only finite numbers that leave room to compute with."""
    if type(value) is float:  # by far the most frequent: five of them in every step record
        return value if -MAX_FLOAT < value < MAX_FLOAT else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_FLOAT:
        return float(value)
    return None


def as_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def as_object(value: Any) -> Json:
    """A copy without NaN, huge integers and lone surrogates; empty for anything but an object."""
    if not value:
        return {}
    try:
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        kept = json.loads(text, parse_int=lambda digits: as_int(int(digits)), parse_constant=lambda _: None)
    except RecursionError:
        return {}
    return kept if isinstance(kept, dict) else {}
