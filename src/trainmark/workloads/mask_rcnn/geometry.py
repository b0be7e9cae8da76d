"""How large an image is when the network sees it. Numbers only."""

from __future__ import annotations

SIDE_MULTIPLE = 32
"""A batch is padded to sides that the coarsest level of the pyramid divides."""
LONG_PER_SHORT = 1333 / 800
"""The longest side allowed, for a short side of 1."""


def input_size(height: int, width: int, short_side: int) -> tuple[int, int]:
    """(height, width) with the short side at `short_side`, or smaller where the long side would be too long."""
    scale = min(short_side / min(height, width), longest_side(short_side) / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def longest_side(short_side: int) -> int:
    return round(short_side * LONG_PER_SHORT)
