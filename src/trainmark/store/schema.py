"""The tables of the index. It is derived from the run folders, so a new version rebuilds it instead of altering it."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Column, Float, LargeBinary, MetaData, String, Table, Text

from trainmark.store.rows import RunRow

METADATA = MetaData()
META = Table("meta", METADATA, Column("key", String(32), primary_key=True), Column("value", String(64)))

_TEXT = ("cell_id", "suite", "source", "dialect", "workload", "model", "framework", "recipe", "precision", "size",
         "device", "data", "unit", "outcome", "reason", "machine", "resumed_from", "purpose")  # fmt: skip
_WHOLE = ("nodes", "devices", "batch_size_per_device", "epochs", "seed", "repeat", "peak_memory_bytes",
          "num_records")  # fmt: skip
_NUMBERS = ("started_unix_s", "wall_s", "lr")
_JSON = ("evals", "warnings", "environment", "log", "until_target", "pauses")
_ARRAYS = ("seconds", "samples", "steps", "times", "loss_steps", "losses")

RUNS = Table(
    "runs",
    METADATA,
    Column("id", String(128), primary_key=True),
    *(Column(name, Text) for name in _TEXT),
    *(Column(name, BigInteger) for name in _WHOLE),
    *(Column(name, Float) for name in _NUMBERS),
    *(Column(name, Text) for name in _JSON),
    *(Column(name, LargeBinary) for name in _ARRAYS),
)

VERSION = hashlib.sha256(" ".join(sorted(column.name for column in RUNS.columns)).encode()).hexdigest()[:12]
"""Follows from the columns, so that no change of them can be forgotten."""


def to_record(row: RunRow) -> dict[str, Any]:
    plain = {name: getattr(row, name) for name in ("id", *_TEXT, *_WHOLE, *_NUMBERS)}
    documents = {name: json.dumps(getattr(row, name), ensure_ascii=False) for name in _JSON}
    arrays = {name: zlib.compress(np.asarray(getattr(row, name), dtype="<f8").tobytes(), 1) for name in _ARRAYS}
    return {**plain, **documents, **arrays}


def from_record(record: dict[str, Any]) -> RunRow:
    values = dict(record)
    for name in _JSON:
        values[name] = json.loads(values[name])
    for name in ("evals", "warnings"):
        values[name] = tuple(values[name])
    for name in _ARRAYS:
        values[name] = np.frombuffer(zlib.decompress(values[name]), dtype="<f8")
    return RunRow(**values)
