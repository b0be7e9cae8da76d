"""Axes: round tick values, their labels, and the place of a value on the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count, pairwise

from trainmark.units import format_number


@dataclass(frozen=True, kw_only=True)
class Scale:
    """From values to pixels; `is_log` by factors instead of differences."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.is_log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, self.low / 10))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.begin + share * (self.end - self.begin)


def round_ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, inside the range."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    raw = (high - low) / max(1, most)
    power = 10 ** math.floor(math.log10(raw))
    size = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / size - 1e-9)
    found: list[float] = []
    for number in count(first):
        if number * size > high + 1e-9 * size:
            return [0.0 if abs(value) < size / 1e6 else value for value in found]
        found.append(number * size)
    return found


def label(value: float, step: float) -> str:
    """With as many decimals as the distance between ticks needs: 0.25, 12,000, 3 M."""
    if abs(value) >= 1e6:
        return f"{format_number(value / 1e6, digits=3).rstrip('0').rstrip('.')} M"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:,.{min(decimals, 9)}f}"


def labels(ticks: list[float]) -> list[str]:
    step = min((b - a for a, b in pairwise(ticks)), default=abs(ticks[0]) if ticks else 1.0)
    return [label(value, step or 1.0) for value in ticks]


def padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """A little wider; a single value gets a range around it."""
    if high <= low:
        return (low - abs(low) * 0.1 - 1e-9, high + abs(high) * 0.1 + 1e-9)
    room = (high - low) * share
    return (max(0.0, low - room) if low >= 0 else low - room, high + room)
