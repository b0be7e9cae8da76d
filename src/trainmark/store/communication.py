"""The record of what the ranks exchanged, as a row keeps it: numbers only, however strange the folder."""

from __future__ import annotations

from typing import Any

from trainmark.runfolder.files import Json
from trainmark.runfolder.values import as_object, as_text

_MAX_PAIRS = 64
_MAX_REASON = 300
_LEAST_S, _MOST_S = 1e-9, 1e9
"""Nothing is exchanged faster than that, and a bandwidth from less may be no number."""


def read_communication(record: Json) -> Json | None:
    """None for a record that says neither times nor why there are none."""
    reason = record.get("reason")
    if isinstance(reason, str):
        return {
            "reason": (as_text(reason) or "")[:_MAX_REASON],
            "reason_code": as_text(record.get("reason_code")),
            "reason_params": as_object(record.get("reason_params")),
        }
    listed = record.get("pairs")
    pairs = [pair for item in listed[:_MAX_PAIRS] if (pair := _positives(item, 2))] if isinstance(listed, list) else []
    num_bytes, num_ranks = record.get("gradient_bytes"), record.get("num_ranks")
    if not pairs or not _is_count(num_bytes) or not _is_count(num_ranks):
        return None
    return {
        "reason": None,
        "pairs": pairs,
        "gradient_bytes": num_bytes,
        "num_ranks": num_ranks,
        "all_reduce_s": _positives(record.get("all_reduce_s")) or [],
    }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _positives(value: Any, length: int | None = None) -> list[float] | None:
    if not isinstance(value, list) or len(value) > _MAX_PAIRS or (length is not None and len(value) != length):
        return None
    numbers = [item for item in value if isinstance(item, (int, float)) and not isinstance(item, bool)]
    is_right = len(numbers) == len(value) and all(_LEAST_S <= item < _MOST_S for item in numbers)
    return [float(item) for item in numbers] if is_right else None
