"""The columns of the index, which follow from the fields of `RunRow` and `Steps`, and a row as a record and back.

The table `runs` has what a table of results needs, a few hundred bytes per run. The table `steps` has the rest and is
read one run at a time. Only the standard library is imported.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from trainmark.store.rows import RunRow, Steps


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    OBJECT = "object"
    """As JSON."""
    LIST = "list"
    """As JSON; a tuple in the row."""


_KINDS: dict[Any, Kind] = {
    str: Kind.TEXT,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    dict: Kind.OBJECT,
    tuple: Kind.LIST,
}


def find_kinds(row_type: type[RunRow]) -> dict[str, Kind]:
    """The columns of the table `runs`: every field of the row except the functions that load more."""
    hints = get_type_hints(row_type)
    types = {field.name: _without_none(hints[field.name]) for field in fields(row_type)}
    return {name: _KINDS[own] for name, own in types.items() if own is not Callable}


def _without_none(hint: Any) -> Any:
    """`str | None` -> str, `dict[str, Any]` -> dict."""
    (own,) = (part for part in get_args(hint) if part is not NoneType) if isinstance(hint, UnionType) else (hint,)
    return get_origin(own) or own


RUNS, STEPS = "runs", "steps"
KINDS = find_kinds(RunRow)
ARRAYS = tuple(field.name for field in fields(Steps))
TABLES = {RUNS: tuple(KINDS), STEPS: ("id", "document", *ARRAYS)}
VERSION = hashlib.sha256(repr((sorted(KINDS.items()), sorted(ARRAYS))).encode()).hexdigest()[:12]
"""Computed from the columns, so that every change of them gives a new version."""

_LISTS = tuple(name for name, kind in KINDS.items() if kind is Kind.LIST)
_JSON = (*_LISTS, *(name for name, kind in KINDS.items() if kind is Kind.OBJECT))


def to_record(row: RunRow) -> dict[str, Any]:
    """The columns of both tables."""
    values = {name: getattr(row, name) for name in KINDS}
    documents = {name: json.dumps(values[name]) for name in _JSON}  # ASCII, so a lone surrogate can be written too
    arrays = {name: zlib.compress(getattr(row, name).astype("<f8").tobytes(), 1) for name in ARRAYS}
    return {**values, **documents, **arrays, "document": row.load_document()}


def to_derived_record(row: RunRow) -> dict[str, Any]:
    """Only the columns that the analyser fills."""
    analysis = json.dumps(row.analysis)
    return {"analysis": analysis, "analysis_version": row.analysis_version, "document": row.load_document()}


def from_record(
    record: Mapping[str, Any],
    *,
    load_steps: Callable[[str], Steps],
    load_document: Callable[[str], str | None],
    analysis_version: str | None,
) -> RunRow:
    """An analysis by another version is left out."""
    values = dict(record)
    for name in _JSON:
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
