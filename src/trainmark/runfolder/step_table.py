"""The steps of an imported log: `steps.npy`, a table of doubles in numpy's own format, one row per record.

A log may have millions of records. As JSON lines they take ten times as long to write and to read as the log itself;
this file is read without parsing, in bounded memory. `numpy.load("steps.npy")["seconds"]` opens it anywhere, and its
header names the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

STEPS_FILE = "steps.npy"

COLUMNS = (
    "is_trace",  # 1 for a number that is kept but is not a record of the dialect
    "step",
    "epoch",
    "time_s",  # since the first record
    "seconds",  # of all steps that the record covers
    "samples",  # of these steps, over all devices
    "num_steps",
    "loss",
    "rounding_s",  # half of the last printed digit, in seconds of the record
    "rate",  # as printed, over all devices
    "printed_seconds",  # as printed
    "printed_rate",  # as printed
)
"""NaN where unknown. `seconds` is NaN if a record is joined with the next one; see `logs/timing.py`."""

_TYPE = np.dtype([(name, "<f8") for name in COLUMNS])
_MAX_HEADER_BYTES = 4096
Table = NDArray[np.void]
"""A structured array with `COLUMNS`."""


class StepTableWriter:
    """Writes a table of a known number of rows in parts."""

    def __init__(self, path: Path, num_rows: int) -> None:
        self._file: BinaryIO = path.open("wb")
        header = {"descr": np.lib.format.dtype_to_descr(_TYPE), "fortran_order": False, "shape": (num_rows,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def write(self, columns: dict[str, NDArray[np.float64]]) -> None:
        """All columns, of one length."""
        part = np.empty((len(columns["step"]), len(COLUMNS)), dtype="<f8")
        for place, name in enumerate(COLUMNS):
            part[:, place] = columns[name]
        self._file.write(part.tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()


def open_steps(path: Path) -> Table | None:
    """The table, mapped into memory and not read yet; None if there is no such file or it is not one of ours."""
    if not path.is_file() or path.is_symlink():
        return None
    try:
        table = np.load(path, mmap_mode="r", allow_pickle=False, max_header_size=_MAX_HEADER_BYTES)
    except (ValueError, OSError, EOFError):
        return None
    return table if table.ndim == 1 and table.dtype == _TYPE else None


def read_parts(table: Table, num_rows: int) -> Iterator[Table]:
    """Copies of at most `num_rows` rows each."""
    for begin in range(0, len(table), num_rows):
        yield np.array(table[begin : begin + num_rows])
