"""Step records as rows of doubles in an unnamed temporary file, so that memory does not grow with the log."""

from __future__ import annotations

import math
import os
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


class Spool:
    def __init__(self) -> None:
        self.num_rows = 0
        """All rows, also those of numbers that are not records."""
        self._buffer = array("d")
        self._file = tempfile.TemporaryFile(prefix="trainmark-")  # noqa: SIM115 - closed by close()

    def add(self, record: LogRecord) -> None:
        self.num_rows += 1
        self._buffer.extend(_values(record))
        if len(self._buffer) >= _ROWS * _WIDTH:
            self._flush()

    def add_rows(self, rows: Rows) -> None:
        """Add many rows at once, with the columns of `FIELDS`."""
        self._flush()
        self.num_rows += len(rows)
        self._file.seek(0, os.SEEK_END)
        self._file.write(np.ascontiguousarray(rows, dtype=np.float64).tobytes())

    def parts(self) -> Iterator[Rows]:
        """The rows in parts of a few megabytes."""
        self._flush()
        self._file.seek(0)
        while chunk := self._file.read(_ROWS * _WIDTH * 8):
            yield np.frombuffer(chunk, dtype=np.float64).reshape(-1, _WIDTH)

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        if self._buffer:
            self._file.seek(0, os.SEEK_END)
            self._file.write(self._buffer.tobytes())
            del self._buffer[:]


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
