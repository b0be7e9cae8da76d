"""Records on their way: rows of plain doubles in a file without a name, so that a log of any length needs no memory."""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Iterator

from trainmark.logs.record import LogRecord

_ROWS = 8192
_WIDTH = 8
_ABSENT = math.nan

Row = tuple[bool, float, float, float, float, float, float, float]
"""is_trace, step, epoch, time_s, seconds, rate, samples, loss; NaN where absent."""


class Spool:
    def __init__(self) -> None:
        self.num_rows = 0
        self._buffer = array("d")
        self._file = tempfile.TemporaryFile(prefix="trainmark-")  # noqa: SIM115 - closed by close()

    def add(self, record: LogRecord) -> None:
        self.num_rows += record.kind == "step"
        values = (record.step, record.epoch, record.time_s, record.seconds, record.rate, record.samples, record.loss)
        self._buffer.append(record.kind == "trace")
        self._buffer.extend(_ABSENT if value is None else value for value in values)
        if len(self._buffer) >= _ROWS * _WIDTH:
            self._flush()

    def rows(self) -> Iterator[Row]:
        self._flush()
        self._file.seek(0)
        while chunk := self._file.read(_ROWS * _WIDTH * 8):
            values = array("d", chunk)
            for start in range(0, len(values), _WIDTH):
                row = values[start : start + _WIDTH]
                yield bool(row[0]), row[1], row[2], row[3], row[4], row[5], row[6], row[7]

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        self._file.write(self._buffer.tobytes())
        del self._buffer[:]


def absent(value: float) -> float | None:
    """NaN is how a row of doubles says None."""
    return None if value != value else value
