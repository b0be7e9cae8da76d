"""The columns of the index, which follow from the fields of `RunRow` and `Steps`, and a row as a record and back.

The table `runs` has what a table of results needs, a few hundred bytes per run. The table `steps` has the rest and is
read one run at a time. Only the standard library is imported.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import partial
from operator import itemgetter
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
DIGEST = "digest"
"""The last column of a run: what the others were when they were written, since SQLite has no checksums of its own. In
the table `steps` it is of the document; the arrays are compressed with a checksum."""
TABLES = {RUNS: (*KINDS, DIGEST), STEPS: ("id", "document", DIGEST, *ARRAYS)}
VERSION = hashlib.sha256(repr((sorted(KINDS.items()), TABLES)).encode()).hexdigest()[:12]
"""Computed from the columns, so that every change of them gives a new version."""

DERIVED = ("analysis", "powers", "origin", "analysis_version")
"""The columns that the analyser fills."""
_NOISY = ("seconds", "times", "losses", "stamps")
"""Whose digits are chance: compressing them takes long and saves nothing."""
_LISTS = tuple(name for name, kind in KINDS.items() if kind is Kind.LIST)
_OBJECTS = tuple(name for name, kind in KINDS.items() if kind is Kind.OBJECT)
_decode = json.JSONDecoder().decode


Records = dict[str, dict[str, Any]]
"""A run as rows of the tables, by table."""


def to_records(row: RunRow) -> Records:
    """A row of each table."""
    arrays = {
        name: zlib.compress(getattr(row, name).astype("<f8").tobytes(), 0 if name in _NOISY else 1) for name in ARRAYS
    }
    facts = _facts(row)
    return {
        RUNS: {**facts, DIGEST: digest_of(facts.values())},
        STEPS: {"id": row.id, **_document(row), **arrays},
    }


def to_derived_records(row: RunRow) -> Records:
    """Only `DERIVED`, and the digests, which change with them."""
    facts = _facts(row)
    own = {name: facts[name] for name in DERIVED}
    return {RUNS: {**own, DIGEST: digest_of(facts.values())}, STEPS: _document(row)}


def _document(row: RunRow) -> dict[str, Any]:
    document = row.load_document()
    return {"document": document, DIGEST: digest_of((row.id, document))}


def _facts(row: RunRow) -> dict[str, Any]:
    """The table `runs` without the digest."""
    values = {name: getattr(row, name) for name in KINDS}
    return {
        **values,
        **{name: json.dumps(values[name]) for name in (*_LISTS, *_OBJECTS)},
    }  # ASCII: a lone surrogate is possible


def digest_of(values: Iterable[Any]) -> str:
    """The same in every process: the second format of marshal has neither references nor interned strings."""
    return hashlib.blake2b(marshal.dumps(tuple(values), 2), digest_size=8).hexdigest()


def is_sound(record: Sequence[Any]) -> bool:
    """Whether a row of the table `runs` is as it was written."""
    return isinstance(record[0], str) and digest_of(record[:-1]) == record[-1]


class _Decoded:
    """A column of JSON in a row of the index: decoded when it is first used, since a table needs few of them."""

    def __init__(self, name: str) -> None:
        self._name, self._place, self._is_list = name, list(KINDS).index(name), name in _LISTS

    def __get__(self, row: Any, _: type) -> Any:
        text = row.record[self._place]
        if self._is_list:
            found: Any = tuple(_decode(text)) if text != "[]" else ()
        else:
            found = _decode(text) if text != "{}" else {}
        vars(row)[self._name] = found
        return found


_IndexedRow: type[RunRow] = type("IndexedRow", (RunRow,), {name: _Decoded(name) for name in (*_LISTS, *_OBJECTS)})
_PLAIN = tuple(name for name in KINDS if name not in (*_LISTS, *_OBJECTS))
_take_plain = itemgetter(*map(list(KINDS).index, _PLAIN))
_take_version = itemgetter(list(KINDS).index("analysis_version"))


def from_record(
    record: Sequence[Any],
    *,
    load_steps: Callable[[str], Steps],
    load_document: Callable[[str], str | None],
    analysis_version: str | None,
) -> RunRow:
    """From a sound row. An analysis by another version is left out."""
    row = _IndexedRow.__new__(_IndexedRow)  # its __init__ would take half of the time to read a large table
    run_id, facts = record[0], vars(row)
    facts.update(zip(_PLAIN, _take_plain(record), strict=True))
    facts.update(record=record, load_steps=partial(load_steps, run_id), load_document=partial(load_document, run_id))
    if analysis_version is None or _take_version(record) != analysis_version:
        facts.update(analysis=None, powers={}, origin=(), analysis_version=None, load_document=lambda: None)
    return row


def read_arrays(values: Mapping[str, bytes]) -> Steps:
    """zlib.error, TypeError or ValueError for damaged ones."""
    import numpy as np

    return Steps(**{name: np.frombuffer(zlib.decompress(values[name]), dtype="<f8") for name in ARRAYS})
