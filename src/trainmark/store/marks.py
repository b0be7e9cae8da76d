"""The steps that the processes of a command marked, each in a file of its own, added up by their place in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainmark.messages.commands import uneven_marks

_UNEVEN = 0.95
"""One step more or less is usual: a command may end between the marks of two processes."""


def add_up(marked: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Only steps that all have done, timed by the first process; samples that are no number are nan."""
    counts = [len(found["seconds"]) for found in marked]
    num_steps = min(counts)
    samples = np.sum([found["samples"][:num_steps] for found in marked], axis=0)
    first = {name: marked[0][name][:num_steps] for name in ("seconds", "steps", "times")}
    is_known = np.isfinite(samples) & np.isfinite(first["seconds"])
    columns = {name: column[is_known] for name, column in {**first, "samples": samples}.items()}
    columns = _join_empty(columns)
    warnings = [*marked[0]["warnings"], *_warn_uneven(counts)]
    return {**marked[0], **columns, "num_records": len(columns["seconds"]), "warnings": tuple(warnings)}


def _join_empty(columns: dict[str, Any]) -> dict[str, Any]:
    """A step without samples took its time all the same: that goes to the next step that has some."""
    (full,) = np.nonzero(columns["samples"] > 0)
    if not len(full):
        return {name: column[:0] for name, column in columns.items()}
    begins, columns = np.append(0, full[:-1] + 1), {name: column[: full[-1] + 1] for name, column in columns.items()}
    return {
        **{name: column[full] for name, column in columns.items()},
        "seconds": np.add.reduceat(columns["seconds"], begins),
    }


def _warn_uneven(counts: Sequence[int]) -> list[dict[str, Any]]:
    least, most = min(counts), max(counts)
    if most - least <= 1 or least >= _UNEVEN * most:
        return []
    return [uneven_marks(least=least, most=most).to_json()]
