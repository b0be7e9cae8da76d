"""What the ranks of a run recorded about the machine: samples of rank 0, and the energy counters of all.

Both are thinned to a bounded number: a counter adds up, so leaving out readings between two others loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.files import Json, rank_file, rank_files, read_lines
from trainmark.runfolder.records import Kind, decode_record
from trainmark.runfolder.values import as_float, as_object, as_text
from trainmark.store.bounded import Thinned
from trainmark.store.rows import TELEMETRY

Floats = NDArray[np.float64]

_MOST_SAMPLES = 2000
_MOST_READINGS = 1000
_MAX_JOULES = 1e15
_MOST_NAMES = 64
"""Counters of one rank, and reasons why there are none."""
KINDS = ("device", "host")


def read_telemetry(folder: Path) -> Floats:
    """All samples of rank 0, one after another."""
    known = Thinned[tuple[float, ...]](_MOST_SAMPLES)
    for record in _read(folder / rank_file(0), Kind.TELEMETRY):
        row = _sample(record)
        if math.isfinite(row[0]):
            known.add(row)
    return np.asarray(_thin(known.items, _MOST_SAMPLES), dtype=np.float64).reshape(-1)


def _sample(record: Json) -> tuple[float, ...]:
    values = (as_float(record.get(name)) for name in TELEMETRY)
    return tuple(math.nan if value is None else value for value in values)


def read_energy(folder: Path) -> tuple[Json, Floats]:
    """Each counter once, though several ranks read it: `device` by the GPU's own name, `host` by the host's."""
    counters: dict[tuple[str, str], list[tuple[float, float]]] = {}
    missing: dict[str, list[Json]] = {}
    for path in rank_files(folder):
        for (kind, name), readings in _read_rank(path, missing).items():
            kept = counters.setdefault((kind, name), [])
            if len(readings) > len(kept):
                counters[kind, name] = readings
    if not counters and not missing:
        return {}, np.empty(0)
    rows = [
        (place, *reading)
        for place, readings in enumerate(counters.values())
        for reading in _thin(readings, _MOST_READINGS)
    ]
    facts = {"counters": [{"kind": kind, "name": name} for kind, name in counters], "missing": missing}
    return facts, np.asarray(rows, dtype=np.float64).reshape(-1)


def _read_rank(path: Path, missing: dict[str, list[Json]]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    names: dict[str, str] = {}
    found: dict[tuple[str, str], Thinned[tuple[float, float]]] = {}
    for record in _read(path, Kind.ENERGY):
        at_s = as_float(record.get("unix_s"))
        for kind in KINDS:
            name, joules = as_text(record.get(kind)), as_float(record.get(f"{kind}_j"))
            if name is not None:
                names[kind] = name
            reasons = missing.setdefault(kind, []) if f"{kind}_missing" in record else []
            if f"{kind}_missing" in record and len(reasons) < _MOST_NAMES:
                reasons.append(as_object(record[f"{kind}_missing"]))
            is_reading = kind in names and at_s is not None and joules is not None and 0 <= joules < _MAX_JOULES
            if is_reading and ((kind, names[kind]) in found or len(found) < _MOST_NAMES):
                readings = found.setdefault((kind, names[kind]), Thinned(_MOST_READINGS))
                readings.add((at_s or 0.0, joules or 0.0))
    return {counter: readings.items for counter, readings in found.items()}


def _read(path: Path, kind: Kind) -> Iterator[Json]:
    """Without decoding the steps."""
    for line in read_lines(path, containing=f'"{kind}"'.encode()):
        record = decode_record(line)
        if record is not None and record["kind"] == kind:
            yield record


def _thin(rows: list[Any], most: int) -> list[Any]:
    """Evenly, with the first and the last."""
    if len(rows) <= most:
        return rows
    places = np.linspace(0, len(rows) - 1, most).round().astype(int)
    return [rows[place] for place in places]
