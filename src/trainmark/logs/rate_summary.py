"""Median, mean and last of the printed rates of a long log, exact and in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.step_table import MAX_ROWS, open_steps

_PART_ROWS = 1 << 15
_NUM_BINS = 1 << 12
_MAX_COLLECTED = 1 << 15
Floats = NDArray[np.float64]
ReadParts = Callable[[], Iterator[Floats]]


def summarise_rates(path: Path) -> dict[str, float] | None:
    """None for a log that is short enough to be analysed record by record, or has no rates."""
    table = open_steps(path)
    if table is None or table.num_rows <= MAX_ROWS:
        return None

    def read() -> Iterator[Floats]:
        for part in table.parts(_PART_ROWS):
            yield part["rate"][~np.isnan(part["rate"])]

    count, total, last = 0, 0.0, math.nan
    for rates in read():
        count, total = count + len(rates), total + float(rates.sum())
        last = float(rates[-1]) if len(rates) else last
    return {"median": exact_median(read), "mean": total / count, "last": last} if count else None


def exact_median(read: ReadParts) -> float:
    """Of all values of the parts; there must be one."""
    count = sum(len(part) for part in read())
    return (_find_ranked(read, (count - 1) // 2) + _find_ranked(read, count // 2)) / 2


def _find_ranked(read: ReadParts, rank: int) -> float:
    """The value with `rank` smaller ones in sorted order: narrow the range until what is in it fits in memory."""
    low = min(float(part.min()) for part in read() if len(part))
    high = max(float(part.max()) for part in read() if len(part))
    below = 0
    while low < high:
        edges = np.linspace(low, high, _NUM_BINS + 1)
        counts = sum((np.histogram(part, edges)[0] for part in read()), np.zeros(_NUM_BINS, dtype=np.intp))
        place = int(np.searchsorted(below + np.cumsum(counts), rank, side="right"))
        below, is_last = below + int(counts[:place].sum()), place == _NUM_BINS - 1
        before = low, high
        low, high = float(edges[place]), float(edges[place + 1])
        if counts[place] <= _MAX_COLLECTED or (low, high) == before:
            inside = [part[(part >= low) & ((part <= high) if is_last else (part < high))] for part in read()]
            return float(np.sort(np.concatenate(inside))[rank - below])
        # The upper edge belongs to the next bin: the largest value of this one takes its place.
        high = max(
            (float(kept.max()) for part in read() if len(kept := _between(part, low, high, is_last))), default=low
        )
        low = min((float(kept.min()) for part in read() if len(kept := _between(part, low, high, True))), default=low)
    return low


def _between(part: Floats, low: float, high: float, is_closed: bool) -> Floats:
    return part[(part >= low) & ((part <= high) if is_closed else (part < high))]
