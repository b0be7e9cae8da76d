"""Step records as columns of numbers, a block of records at a time, in bounded memory.

Of very many, each row is the sum of a group of neighbouring steps, as in `imported_steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.files import Json
from trainmark.runfolder.records import MAX_SECONDS, MIN_SECONDS
from trainmark.runfolder.values import MAX_FLOAT, as_float
from trainmark.store.rows import Steps

Floats = NDArray[np.float64]
Columns = dict[str, Floats]

MOST_STEPS = 1 << 18
"""More than twice as many are joined in pairs, again and again: 300 MB are enough for a file of any size."""
_MAX_SAMPLES = 1e15
_SUMS = ("seconds", "samples", "rounding")
_FIELDS = {
    "seconds": "seconds",
    "samples": "samples",
    "steps": "step",
    "times": "time_s",
    "losses": "loss",
    "rounding": "rounding_s",
    "stamps": "unix_s",
}
"""The field of a record for each column."""
_ROW = tuple(name for name in _FIELDS if name != "losses")


def read_columns(records: Sequence[Json]) -> Columns:
    """NaN for what is absent or unusable."""
    return {name: _as_floats(_take(field, records)) for name, field in _FIELDS.items()}


def _take(field: str, records: Sequence[Json]) -> list[object]:
    try:
        return list(map(itemgetter(field), records))  # twice as fast, where all have it
    except KeyError:
        return [record.get(field) for record in records]


def _as_floats(values: list[object]) -> Floats:
    """`as_float` of each."""
    types = set(map(type, values))
    if types == {NoneType}:
        return np.full(len(values), np.nan)
    if types <= {float, int, NoneType}:
        try:
            found = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer that no double can hold
            pass
        else:
            found[~(np.abs(found) < MAX_FLOAT)] = np.nan
            return found
    return np.array([np.nan if (number := as_float(value)) is None else number for value in values])


class StepColumns:
    """`is_marked`: every step keeps its place among those of other processes, with NaN for what is unusable."""

    def __init__(self, *, is_marked: bool) -> None:
        self.num_records = 0
        self._is_marked = is_marked
        self._rows = _Rows(can_join=not is_marked)
        self._losses = _Losses()

    def add(self, columns: Columns) -> None:
        """As `read_columns` gives them."""
        self._losses.add(columns, num_before=self.num_records)
        self.num_records += len(columns["seconds"])
        seconds, samples = columns["seconds"], columns["samples"]
        is_timed = (seconds >= MIN_SECONDS) & (seconds <= MAX_SECONDS)
        if self._is_marked:
            is_counted = (samples >= 0) & (samples <= _MAX_SAMPLES)
            usable = {"seconds": np.where(is_timed, seconds, np.nan), "samples": np.where(is_counted, samples, np.nan)}
            self._rows.add({**columns, **usable})
            return
        is_known = is_timed & (samples > 0) & (samples <= _MAX_SAMPLES)
        self._rows.add(columns if is_known.all() else {name: values[is_known] for name, values in columns.items()})

    def to_steps(self, paused: Sequence[float]) -> Steps:
        """`paused` as `Steps` has it."""
        rows = self._rows.to_columns()
        if np.isnan(rows["rounding"]).any():  # a clock measured them; or records of two versions, or a damaged one
            rows["rounding"] = np.empty(0)
        own = {**rows, **self._losses.to_columns()}
        return Steps(**own, printed_rates=np.empty(0), paused=np.array(paused, dtype=np.float64))


class _Rows:
    def __init__(self, *, can_join: bool) -> None:
        self._can_join = can_join
        self._group = 1
        self._num_rows = 0
        self._pending: Columns = {name: np.empty(0) for name in _ROW}
        """Steps of the last group, which is not complete."""
        self._blocks = [self._pending]

    def add(self, columns: Columns) -> None:
        steps = {name: np.concatenate((self._pending[name], columns[name])) for name in _ROW}
        begin, num_steps = 0, len(steps["seconds"])
        while num_steps - begin >= self._group:
            if self._can_join and self._num_rows == 2 * MOST_STEPS:
                self._join_pairs()
                continue
            num_groups = (num_steps - begin) // self._group
            if self._can_join:
                num_groups = min(num_groups, 2 * MOST_STEPS - self._num_rows)
            end = begin + num_groups * self._group
            self._blocks.append(_add_up({name: values[begin:end] for name, values in steps.items()}, self._group))
            self._num_rows += num_groups
            begin = end
        self._pending = {name: values[begin:] for name, values in steps.items()}

    def _join_pairs(self) -> None:
        self._blocks = [_add_up(_join(self._blocks), 2)]
        self._num_rows //= 2
        self._group *= 2

    def to_columns(self) -> Columns:
        return _join([*self._blocks, _add_up(self._pending, max(1, len(self._pending["seconds"])))])


class _Losses:
    """Thinned to every second one, again and again."""

    def __init__(self) -> None:
        self._every, self._num_added, self._num_kept = 1, 0, 0
        self._blocks: list[Columns] = [{"loss_steps": np.empty(0), "losses": np.empty(0)}]

    def add(self, columns: Columns, *, num_before: int) -> None:
        (found,) = np.nonzero(~np.isnan(columns["losses"]))
        if not len(found):
            return
        places = found[-self._num_added % self._every :: self._every]
        numbers = columns["steps"][places]
        numbers = np.where(np.isnan(numbers), num_before + places + 1.0, numbers)
        self._blocks.append({"loss_steps": numbers, "losses": columns["losses"][places]})
        self._num_added += len(found)
        self._num_kept += len(places)
        while self._num_kept > 2 * MOST_STEPS:
            self._blocks = [{name: values[::2] for name, values in _join(self._blocks).items()}]
            self._num_kept = len(self._blocks[0]["losses"])
            self._every *= 2

    def to_columns(self) -> Columns:
        return _join(self._blocks)


def _join(blocks: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _add_up(columns: Columns, group: int) -> Columns:
    """Each row of the result is a group of neighbours: their sum, or the last where a sum has no meaning."""
    if group == 1:
        return columns
    groups = {name: values.reshape(-1, group) for name, values in columns.items()}
    # A copy: a part of an array would keep the whole in memory.
    return {name: values.sum(axis=1) if name in _SUMS else values[:, -1].copy() for name, values in groups.items()}
