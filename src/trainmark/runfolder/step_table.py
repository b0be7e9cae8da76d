"""The steps of an imported log: `steps.npy`, a table of doubles in numpy's own format, one row per record.

A log may have millions of records. As JSON lines they take ten times as long to write and to read as the log itself;
this file is read without parsing, in bounded memory. `numpy.load("steps.npy")["seconds"]` opens it anywhere, and its
header names the columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.files import NotRegularError, open_regular

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
)
"""A file has those that its log tells; NaN where one record does not. `seconds` is NaN if a record is joined with the
next one; see `logs/timing.py`. Without `num_steps`, each record is one step; without `rate`, it is samples over
seconds."""

MAX_ROWS = 1 << 15
"""Of a longer table, analysis and index get sums of neighbouring rows; see `store/imported_steps.py`."""
_MAX_HEADER_BYTES = 4096


class StepTableWriter:
    """Writes a table of a known number of rows in parts."""

    def __init__(self, path: Path, num_rows: int, names: Sequence[str]) -> None:
        """`names`: the columns that the file has, in the order of `COLUMNS`."""
        self._file: BinaryIO = path.open("wb")
        self._names = [name for name in COLUMNS if name in names]
        descr = [(name, "<f8") for name in self._names]
        header = {"descr": descr, "fortran_order": False, "shape": (num_rows,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def write(self, columns: dict[str, NDArray[np.float64]]) -> None:
        """Columns of one length."""
        part = np.empty((len(columns["seconds"]), len(self._names)), dtype="<f8")
        for place, name in enumerate(self._names):
            part[:, place] = columns[name]
        self._file.write(part.tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()


Part = dict[str, NDArray[np.float64]]
"""All columns of some rows; NaN, or 0 for `is_trace`, where the file has none."""


class StepTable:
    """A table on disk, read in parts: mapping it would count as memory of the process."""

    def __init__(self, path: Path, num_rows: int, kind: np.dtype[np.void], offset: int) -> None:
        self.num_rows = num_rows
        self._path, self._kind, self._offset = path, kind, offset

    def parts(self, num_rows: int) -> Iterator[Part]:
        """At most `num_rows` rows each."""
        names = self._kind.names or ()
        with open_regular(self._path) as file:
            file.seek(self._offset)
            while data := file.read(num_rows * self._kind.itemsize):
                rows = np.frombuffer(data, dtype="<f8").reshape(-1, len(names)).T
                found = dict(zip(names, rows, strict=True))
                absent = np.full(rows.shape[1], np.nan)
                part = {"is_trace": np.zeros(rows.shape[1]), **dict.fromkeys(COLUMNS[1:], absent), **found}
                if "num_steps" not in found:
                    part["num_steps"] = np.ones(rows.shape[1])
                if "rate" not in found:
                    with np.errstate(divide="ignore", invalid="ignore"):
                        part["rate"] = part["samples"] / part["seconds"]
                yield part


def open_steps(path: Path) -> StepTable | None:
    """None if there is no such file, or it is not one of ours, or was cut short."""
    try:
        with open_regular(path) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                return None
            shape, _, kind = np.lib.format.read_array_header_1_0(file, max_header_size=_MAX_HEADER_BYTES)
            offset, size = file.tell(), os.fstat(file.fileno()).st_size
    except (ValueError, OSError, EOFError, NotRegularError):
        return None
    names = kind.names or ()
    is_ours = bool(names) and set(names) <= set(COLUMNS) and kind == np.dtype([(name, "<f8") for name in names])
    is_whole = len(shape) == 1 and size == offset + shape[0] * kind.itemsize
    return StepTable(path, int(shape[0]), kind, offset) if is_ours and is_whole else None
