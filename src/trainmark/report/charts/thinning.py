"""A long series as few points: the smallest and the largest value of each column of pixels, so no spike is lost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trainmark.report.charts.axis import Scale

Floats = NDArray[np.float64]


def thin(x: Floats, y: Floats, columns: int) -> tuple[Floats, Floats]:
    """At most two points per column, in order; what is not finite is left out."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) <= 2 * columns or columns < 1:
        return x, y
    low, high = float(x[0]), float(x[-1])
    width = (high - low) / columns or 1.0
    column = np.clip(((x - low) / width).astype(int), 0, columns - 1)
    kept: list[int] = [0]
    bounds = np.flatnonzero(np.diff(column, prepend=-1))
    for begin, end in zip(bounds, [*bounds[1:], len(x)], strict=True):
        part = y[begin:end]
        kept += sorted({int(begin + part.argmin()), int(begin + part.argmax())})
    kept.append(len(x) - 1)
    places = np.unique(kept)
    return x[places], y[places]


def trace(x: Floats, y: Floats, across: Scale, up: Scale, *, columns: int) -> str:
    """The path of a line, in whole tenths of a pixel, each point relative to the one before: half the text."""
    xs, ys = thin(x, y, columns)
    words: list[str] = []
    last: tuple[int, int] | None = None
    for value_x, value_y in zip(xs.tolist(), ys.tolist(), strict=True):
        at = (round(10 * across(value_x)), round(10 * up(value_y)))
        if last is None:
            words.append(f"M{_tenth(at[0])} {_tenth(at[1])}")
        elif at != last:
            right, down = _tenth(at[0] - last[0]), _tenth(at[1] - last[1])
            words.append(f"l{right}{down}" if down.startswith("-") else f"l{right} {down}")
        last = at
    return "".join(words)


def _tenth(value: int) -> str:
    whole, rest = divmod(abs(value), 10)
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}" if not rest else f"{sign}{whole or ''}.{rest}"


def is_drawable(values: Floats) -> bool:
    return int(np.isfinite(values).sum()) > 1 and math.isfinite(float(np.nanmax(values)))
