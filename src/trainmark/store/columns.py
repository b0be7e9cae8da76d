"""The columns of the index, by what they hold, and how a row becomes a run. Only the standard library is loaded.

`runs` is what a table of results needs of a run, some hundred bytes; `steps` holds the rest and is read one run at a
time, by whoever asks for it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from trainmark.store.rows import RunRow, Steps

TEXT = ("cell_id", "suite", "source", "dialect", "workload", "model", "framework", "recipe", "precision", "size",
        "device", "data", "unit", "outcome", "reason", "reason_code", "machine", "resumed_from", "sweep", "retry_of",
        "asked", "purpose", "folder_state", "reading_version", "analysis_version")  # fmt: skip
WHOLE = ("nodes", "devices", "batch_size_per_device", "epochs", "seed", "repeat", "peak_memory_bytes",
         "num_records", "attempt")  # fmt: skip
NUMBERS = ("started_unix_s", "wall_s", "lr")
JSON = ("reason_params", "evals", "warnings", "environment", "log", "until_target", "pauses", "resumed_steps",
        "communication", "analysis")  # fmt: skip
ARRAYS = ("seconds", "samples", "steps", "times", "loss_steps", "losses")

RUNS = "runs"
STEPS = "steps"
TABLES = {RUNS: ("id", *TEXT, *WHOLE, *NUMBERS, *JSON), STEPS: ("id", "document", *ARRAYS)}

VERSION = hashlib.sha256(repr({name: sorted(columns) for name, columns in TABLES.items()}).encode()).hexdigest()[:12]
"""Follows from the columns, so that no change of them can be forgotten."""

_LISTS = ("evals", "warnings", "resumed_steps")


def to_record(row: RunRow) -> dict[str, Any]:
    """The columns of both tables."""
    plain = {name: getattr(row, name) for name in ("id", *TEXT, *WHOLE, *NUMBERS)}
    documents = {name: _encode(getattr(row, name)) for name in JSON}
    arrays = {name: zlib.compress(getattr(row, name).astype("<f8").tobytes(), 1) for name in ARRAYS}
    return {**plain, **documents, **arrays, **to_derived_record(row)}


def to_derived_record(row: RunRow) -> dict[str, Any]:
    """Only what an analyser made."""
    derived = {"analysis": _encode(row.analysis), "analysis_version": row.analysis_version}
    return {**derived, "document": row.load_document()}


def _encode(value: Any) -> str:
    return json.dumps(value)  # in ASCII: any text can be written, also half a surrogate pair


def from_record(
    record: Mapping[str, Any],
    *,
    load_steps: Callable[[str], Steps],
    load_document: Callable[[str], str | None],
    analysis_version: str | None,
) -> RunRow:
    """An analysis of another version is as good as none."""
    values = dict(record)
    for name in JSON:
        values[name] = json.loads(values[name])
    for name in _LISTS:
        values[name] = tuple(values[name])
    run_id = values["id"]
    values["load_steps"] = lambda: load_steps(run_id)
    if analysis_version is None or values["analysis_version"] != analysis_version:
        return RunRow(**{**values, "analysis": None, "analysis_version": None})
    return RunRow(**values, load_document=lambda: load_document(run_id))


def read_arrays(values: Mapping[str, bytes]) -> Steps:
    import numpy as np

    return Steps(**{name: np.frombuffer(zlib.decompress(values[name]), dtype="<f8") for name in ARRAYS})
