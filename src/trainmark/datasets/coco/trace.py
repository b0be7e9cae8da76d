"""Traces a bitmap to polygons along pixel edges, which rasterise to the same bitmap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Ring = list[int]
"""x, y, x, y, ... of the corners."""


def trace(mask: Mask) -> list[Ring]:
    """One polygon per connected part. COCO's polygons have no holes, so a part with a hole is cut in two."""
    import cv2

    rings: list[Ring] = []
    num_labels, parts = cv2.connectedComponents(mask.astype(np.uint8), connectivity=4)
    for label in range(1, num_labels):
        rings.extend(_trace_part(parts == label))
    return rings


def _trace_part(part: Mask) -> list[Ring]:
    loops = _loops(part)
    if len(loops) == 1:
        return loops
    # The loop with the topmost, then leftmost corner is the outer one; any other surrounds a hole.
    outer = min(loops, key=lambda ring: min(zip(ring[1::2], ring[::2], strict=True)))
    hole = next(ring for ring in loops if ring is not outer)
    cut = (min(hole[::2]) + max(hole[::2]) + 1) // 2
    left, right = part.copy(), part.copy()
    left[:, cut:] = False
    right[:, :cut] = False
    return trace(left) + trace(right)


def _loops(part: Mask) -> list[Ring]:
    """Follows the edges between inside and outside, with the inside on the right."""
    padded = np.pad(part, 1)
    steps = _edges(padded)
    rings = []
    while steps:
        start = at = next(iter(steps))
        heading: tuple[int, int] | None = None
        first: tuple[int, int] | None = None
        ring: Ring = []
        while True:
            ways = steps[at]
            # Where two pixels touch only at a corner, turn right: this keeps the parts separate (4-connectivity).
            way = ways[0] if len(ways) == 1 or heading is None else _rightmost(heading, ways)
            ways.remove(way)
            if not ways:
                del steps[at]
            if way != heading:
                ring += [at[0], at[1]]
            first = first or way
            heading, at = way, (at[0] + way[0], at[1] + way[1])
            if at == start:
                break
        if heading == first:  # it started in the middle of a straight edge
            ring = ring[2:]
        rings.append(ring)
    return rings


def _edges(padded: Mask) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """For each corner, the directions of the edges that start there."""
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    down = padded[1:, 1:-1].astype(np.int8) - padded[:-1, 1:-1]
    right = padded[1:-1, 1:].astype(np.int8) - padded[1:-1, :-1]
    found = (
        (np.argwhere(down == 1), (0, 0), (1, 0)),  # the top of a pixel, walked to the right
        (np.argwhere(down == -1), (0, 1), (-1, 0)),
        (np.argwhere(right == -1), (0, 0), (0, 1)),  # the right side of a pixel, walked down
        (np.argwhere(right == 1), (1, 0), (0, -1)),
    )
    for places, (dy, dx), way in found:
        for y, x in places.tolist():
            steps.setdefault((x + dx, y + dy), []).append(way)
    return steps


def _rightmost(heading: tuple[int, int], ways: list[tuple[int, int]]) -> tuple[int, int]:
    right = (-heading[1], heading[0])
    return right if right in ways else ways[0]
