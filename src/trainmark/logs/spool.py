"""Step records as columns of doubles in an unnamed temporary file, so that memory does not grow with the log."""

from __future__ import annotations

import math
import os
import struct
import tempfile
from array import array
from collections.abc import Iterator

import numpy as np

from trainmark.logs.columns import FIELDS, Rows
from trainmark.logs.record import LogRecord

_ROWS = 1 << 15
_WIDTH = len(FIELDS)
_GETTERS = tuple(FIELDS[1:])
_ABSENT = math.nan
_HEAD = struct.Struct(f"q{_WIDTH}?")


class Spool:
    def __init__(self) -> None:
        self.num_rows = 0
        """All rows, also those of numbers that are not records."""
        self._used: set[str] = set()
        self._buffer = array("d")
        self._file = tempfile.TemporaryFile(prefix="trainmark-")  # noqa: SIM115 - closed by close()

    @property
    def used(self) -> set[str]:
        """The columns that have a value; `is_trace` if a row is one."""
        self._flush()
        return self._used

    def add(self, record: LogRecord) -> None:
        self.num_rows += 1
        self._buffer.extend(_values(record))
        if len(self._buffer) >= _ROWS * _WIDTH:
            self._flush()

    def add_rows(self, rows: Rows) -> None:
        """Add many rows at once, with the columns of `FIELDS`."""
        self._flush()
        self.num_rows += len(rows)
        self._write(rows)

    def parts(self) -> Iterator[Rows]:
        """The rows in parts of a few megabytes."""
        self._flush()
        self._file.seek(0)
        waiting: list[tuple[int, dict[int, bytes]]] = []
        while head := self._file.read(_HEAD.size):
            num, *used = _HEAD.unpack(head)
            waiting.append((num, {place: self._file.read(num * 8) for place in range(_WIDTH) if used[place]}))
            if sum(num for num, _ in waiting) >= _ROWS:
                yield _join(waiting)
                waiting = []
        if waiting:
            yield _join(waiting)

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        if self._buffer:
            self._write(np.frombuffer(self._buffer, dtype=np.float64).reshape(-1, _WIDTH).copy())
            del self._buffer[:]

    def _write(self, rows: Rows) -> None:
        """Column by column, without those that are absent: a log has half of them."""
        used = [not np.isnan(rows[:, place]).all() for place in range(_WIDTH)]
        self._used |= {name for name, is_used in zip(FIELDS[1:], used[1:], strict=True) if is_used}
        self._used |= {"is_trace"} if rows[:, 0].any() else set()
        self._file.seek(0, os.SEEK_END)
        self._file.write(_HEAD.pack(len(rows), *used))
        self._file.write(np.ascontiguousarray(rows.T[used]).tobytes())


def _join(parts: list[tuple[int, dict[int, bytes]]]) -> Rows:
    """Each column together in memory: what follows works on columns."""
    rows = np.full((_WIDTH, sum(num for num, _ in parts)), np.nan)
    begin = 0
    for num, columns in parts:
        for place, data in columns.items():
            rows[place, begin : begin + num] = np.frombuffer(data, dtype=np.float64)
        begin += num
    return rows.T


def _values(record: LogRecord) -> list[float]:
    get = record.__dict__.get
    values = [_ABSENT if (value := get(name)) is None else value for name in _GETTERS]
    return [float(record.kind == "trace"), *values]


def to_row(record: LogRecord) -> Rows:
    """A table of one row."""
    return np.array([_values(record)], dtype=np.float64)


def absent(value: float) -> float | None:
    """None for NaN, which stands for an absent value in a row."""
    return None if value != value else value
