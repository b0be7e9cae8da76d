"""What the ranks of a run recorded about the machine: samples of rank 0, and the energy counters of all.

Both are thinned to a bounded number: a counter adds up, so leaving out readings between two others loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.files import Json, read_lines
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


class MachineRecords:
    """Of one rank, from any of its records."""

    def __init__(self) -> None:
        self._samples = Thinned[tuple[float, ...]](_MOST_SAMPLES)
        self._names: dict[str, str] = {}
        self._readings: dict[tuple[str, str], Thinned[tuple[float, float]]] = {}
        self.missing: dict[str, list[Json]] = {}
        """Why there are no counters, by kind."""

    def add(self, record: Json) -> None:
        if record["kind"] == Kind.TELEMETRY:
            sample = tuple(math.nan if (number := as_float(record.get(name))) is None else number for name in TELEMETRY)
            if math.isfinite(sample[0]):
                self._samples.add(sample)
        elif record["kind"] == Kind.ENERGY:
            for kind in KINDS:
                self._add_reading(kind, record)

    def _add_reading(self, kind: str, record: Json) -> None:
        name, at_s, joules = (
            as_text(record.get(kind)),
            as_float(record.get("unix_s")),
            as_float(record.get(f"{kind}_j")),
        )
        if name is not None:
            self._names[kind] = name
        if f"{kind}_missing" in record:
            reasons = self.missing.setdefault(kind, [])
            if len(reasons) < _MOST_NAMES:
                reasons.append(as_object(record[f"{kind}_missing"]))
        if kind not in self._names or at_s is None or joules is None or not 0 <= joules < _MAX_JOULES:
            return
        counter = (kind, self._names[kind])
        if counter in self._readings or len(self._readings) < _MOST_NAMES:
            self._readings.setdefault(counter, Thinned(_MOST_READINGS)).add((at_s, joules))

    @property
    def telemetry(self) -> Floats:
        """All samples, one after another."""
        return np.asarray(_thin(self._samples.items, _MOST_SAMPLES), dtype=np.float64).reshape(-1)

    @property
    def readings(self) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """By kind and name of the counter."""
        return {counter: readings.items for counter, readings in self._readings.items()}


def read_energy(path: Path) -> MachineRecords:
    """Without decoding the steps."""
    found = MachineRecords()
    for line in read_lines(path, containing=f'"{Kind.ENERGY}"'.encode()):
        record = decode_record(line)
        if record is not None and record["kind"] == Kind.ENERGY:
            found.add(record)
    return found


def join_energy(ranks: Sequence[MachineRecords]) -> tuple[Json, Floats]:
    """Each counter once, though several ranks read it: `device` by the GPU's own name, `host` by the host's."""
    counters: dict[tuple[str, str], list[tuple[float, float]]] = {}
    missing: dict[str, list[Json]] = {}
    for rank in ranks:
        for kind, reasons in rank.missing.items():
            missing[kind] = [*missing.get(kind, []), *reasons][:_MOST_NAMES]
        for counter, readings in rank.readings.items():
            if len(readings) > len(counters.setdefault(counter, [])):
                counters[counter] = readings
    if not counters and not missing:
        return {}, np.empty(0)
    rows = [
        (place, *reading)
        for place, readings in enumerate(counters.values())
        for reading in _thin(readings, _MOST_READINGS)
    ]
    facts = {"counters": [{"kind": kind, "name": name} for kind, name in counters], "missing": missing}
    return facts, np.asarray(rows, dtype=np.float64).reshape(-1)


def _thin(rows: list[Any], most: int) -> list[Any]:
    """Evenly, with the first and the last."""
    if len(rows) <= most:
        return rows
    places = np.linspace(0, len(rows) - 1, most).round().astype(int)
    return [rows[place] for place in places]
