"""Step records as rows of doubles in an unnamed temporary file, so that memory does not grow with the log."""

from __future__ import annotations

import math
import struct
import tempfile
from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.record import LogRecord

_ROWS = 8192
_WIDTH = 8
_ABSENT = math.nan

_ROW = struct.Struct("8d")
Row = tuple[float, float, float, float, float, float, float, float]
"""is_trace, step, epoch, time_s, seconds, rate, samples, loss; NaN where absent."""


class Spool:
    def __init__(self) -> None:
        self.num_rows = 0
        self._buffer = array("d")
        self._file = tempfile.TemporaryFile(prefix="trainmark-")  # noqa: SIM115 - closed by close()

    def add(self, record: LogRecord) -> None:
        is_trace = record.kind == "trace"
        self.num_rows += not is_trace
        step, epoch, time_s, seconds = record.step, record.epoch, record.time_s, record.seconds
        rate, samples, loss = record.rate, record.samples, record.loss
        self._buffer.extend(
            (
                is_trace,
                _ABSENT if step is None else step,
                _ABSENT if epoch is None else epoch,
                _ABSENT if time_s is None else time_s,
                _ABSENT if seconds is None else seconds,
                _ABSENT if rate is None else rate,
                _ABSENT if samples is None else samples,
                _ABSENT if loss is None else loss,
            )
        )
        if len(self._buffer) >= _ROWS * _WIDTH:
            self._flush()

    def add_rows(self, rows: NDArray[np.float64]) -> None:
        """Add many rows at once, with the columns of `Row`."""
        self._flush()
        self.num_rows += len(rows)
        self._file.write(np.ascontiguousarray(rows, dtype=np.float64).tobytes())

    def rows(self) -> Iterator[Row]:
        self._flush()
        self._file.seek(0)
        while chunk := self._file.read(_ROWS * _WIDTH * 8):
            yield from _ROW.iter_unpack(chunk)

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        self._file.write(self._buffer.tobytes())
        del self._buffer[:]


def absent(value: float) -> float | None:
    """None for NaN, which stands for an absent value in a row."""
    return None if value != value else value
