"""The largest batch that fits, found by trying: doubling, then halving the gap. Pure but for the tries themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_COARSE_FROM = 64
_COARSE = 8
"""From 64 on only multiples of 8: nobody trains with 517, and tensor cores want multiples of 8 anyway."""


@dataclass(frozen=True, kw_only=True)
class Found:
    largest: int | None
    """None: not even one sample fits, or the tries were used up before one did."""
    too_large: int | None
    """The smallest that is known not to fit; None where none was met."""
    num_tries: int
    is_exact: bool
    """Whether nothing is left to try between the two."""


def search_batch(first: int, fits: Callable[[int], bool], *, most: int, max_tries: int) -> Found:
    """Assumes that all below a batch that fits do fit as well. `most` is the largest that makes sense."""
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
    """What to try, knowing that `low` fits and `high` does not; None when that is all there is to know."""
    if high > most:
        return None if low >= most else min(2 * low, most)
    middle = high // 2 if low == 0 else (low + high) // 2
    if middle >= _COARSE_FROM:
        middle -= middle % _COARSE
    if middle <= low:
        middle = next_batch(low)
    return middle if low < middle < high else None


def next_batch(size: int) -> int:
    """The next larger one that would be tried."""
    return size + 1 if size < _COARSE_FROM else (size // _COARSE + 1) * _COARSE
