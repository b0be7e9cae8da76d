"""`TRAINMARK_MEMORY_LIMIT`: runs live with less memory than there is, to try out a smaller device."""

from __future__ import annotations

import os
from typing import Any

from trainmark.errors import InputError
from trainmark.units import parse_bytes

VARIABLE = "TRAINMARK_MEMORY_LIMIT"


def memory_limit() -> dict[str, Any]:
    """For run.json, by which it reaches the workers of every node and stays with the result."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return {}
    num_bytes = parse_bytes(text)
    if not num_bytes:
        hint = "give bytes for each process, as 8000000000, 8GB or 8GiB; or unset it"
        raise InputError(f"{VARIABLE} is wrong", why=f"{text!r} is no number of bytes", hint=hint)
    return {"memory_limit_bytes": num_bytes}
