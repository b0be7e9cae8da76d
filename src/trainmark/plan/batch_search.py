"""Searches the largest batch that fits: doubling, then bisection. Pure except for the tries, which the caller makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_COARSE_FROM = 64
_COARSE = 8
"""From 64 on only multiples of 8: nobody trains with 517, and tensor cores prefer multiples of 8."""


@dataclass(frozen=True, kw_only=True)
class Found:
    largest: int | None
    """None: one sample does not fit, or no try succeeded within the limit."""
    too_large: int | None
    """The smallest batch that did not fit; None if every try did."""
    num_tries: int
    is_exact: bool
    """Whether no batch between the two is left to try."""


def search_batch(first: int, fits: Callable[[int], bool], *, most: int, max_tries: int) -> Found:
    """Assumes that every batch smaller than one that fits also fits. `most` is the upper limit."""
    low, high, tries = 0, most + 1, 0
    candidate: int | None = min(first, most)
    while candidate is not None and tries < max_tries:
        tries += 1
        if fits(candidate):
            low = candidate
        else:
            high = candidate
        candidate = _next(low, high, most)
    return Found(
        largest=low or None,
        too_large=high if high <= most else None,
        num_tries=tries,
        is_exact=candidate is None,
    )


def _next(low: int, high: int, most: int) -> int | None:
    """What to try next if `low` fits and `high` does not; None if there is nothing left to try."""
    if high > most:
        return None if low >= most else min(2 * low, most)
    middle = high // 2 if low == 0 else (low + high) // 2
    if middle >= _COARSE_FROM:
        middle -= middle % _COARSE
    if middle <= low:
        middle = next_batch(low)
    return middle if low < middle < high else None


def next_batch(size: int) -> int:
    """The next larger batch that would be tried."""
    return size + 1 if size < _COARSE_FROM else (size // _COARSE + 1) * _COARSE
