"""Median, mean and last of the printed rates of a long log, exact and in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.step_table import MAX_ROWS, open_steps

_PART_ROWS = 1 << 15
_NUM_BINS = 1 << 14
_MAX_COLLECTED = 1 << 16
Floats = NDArray[np.float64]
ReadParts = Callable[[], Iterator[Floats]]


@dataclass(kw_only=True)
class RateSums:
    """Collected while the rates are written."""

    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    last: float = math.nan
    bins: _Bins | None = None
    """Around the first rates, which are most likely around the median too: that saves a pass over all of them."""

    def add(self, rates: Floats) -> None:
        known = rates[~np.isnan(rates)]
        if len(known):
            self.count += len(known)
            self.total += float(known.sum())
            self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))
            self.last = float(known[-1])
            if self.bins is None:
                middle = float(np.median(known))
                self.bins = _Bins(0.5 * middle, 1.5 * middle)
            self.bins.add(known)


def summarise_rates(path: Path, sums: RateSums) -> dict[str, float] | None:
    """None for a log that is short enough to be analysed record by record, or has no rates."""
    table = open_steps(path)
    if table is None or table.num_rows <= MAX_ROWS or not sums.count:
        return None

    def read() -> Iterator[Floats]:
        for part in table.parts(_PART_ROWS):
            yield part["rate"][~np.isnan(part["rate"])]

    return {"median": exact_median(read, sums), "mean": sums.total / sums.count, "last": sums.last}


class _Bins:
    """How many values are in each part of a range."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.num_below = 0
        self._width = (high - low) / _NUM_BINS
        self._counts = np.zeros(_NUM_BINS, dtype=np.intp)

    def add(self, values: Floats) -> None:
        self._counts += np.bincount(self.places(values), minlength=_NUM_BINS + 1)[:_NUM_BINS]
        self.num_below += int((values < self.low).sum())

    def places(self, values: Floats) -> NDArray[np.intp]:
        """The bin of each value; that after the last for values out of the range."""
        is_out = (values < self.low) | (values > self.high)
        places = np.minimum((values - self.low) / self._width, _NUM_BINS - 1)
        return np.where(is_out, _NUM_BINS, places).astype(np.intp)

    def find(self, ranks: tuple[int, int]) -> tuple[int, int, int] | None:
        """The bins with the values of these ranks, and how many values are below them; None if out of the range."""
        ends = self.num_below + np.cumsum(self._counts)
        if ranks[0] < self.num_below or ranks[1] >= ends[-1]:
            return None
        first, last = (int(np.searchsorted(ends, rank, side="right")) for rank in ranks)
        return first, last, int(ends[first - 1]) if first else self.num_below


def exact_median(read: ReadParts, sums: RateSums) -> float:
    """Of all values of the parts. A range around the middle is narrowed until what is in it fits in memory."""
    ranks = (sums.count - 1) // 2, sums.count // 2
    bins, low, high = sums.bins, sums.low, sums.high
    while low < high:
        place = bins.find(ranks) if bins is not None else None
        if bins is None or place is None:
            bins = _Bins(low, high)
            for part in read():
                bins.add(part)
            place = bins.find(ranks)
            assert place is not None, "the range has all ranks"
        first, last, below = place
        inside = _Inside()
        for part in read():
            places = bins.places(part)
            inside.add(part[(places >= first) & (places <= last)])
        if inside.values is not None:
            ordered = np.sort(np.concatenate(inside.values))
            return float(ordered[ranks[0] - below] + ordered[ranks[1] - below]) / 2
        bins, low, high = None, inside.low, inside.high
    return low


class _Inside:
    """The values of some bins, unless there are too many, and their range."""

    def __init__(self) -> None:
        self.values: list[Floats] | None = []
        self.low, self.high = math.inf, -math.inf
        self._num = 0

    def add(self, values: Floats) -> None:
        if not len(values):
            return
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self._num += len(values)
        if self._num > _MAX_COLLECTED:
            self.values = None
        if self.values is not None:
            self.values.append(values)
