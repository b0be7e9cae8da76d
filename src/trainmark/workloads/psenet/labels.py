"""The labels that PSENet learns: seven nested maps, and which pixels count. No framework.

All eight are one byte per pixel: bit i is map i, from the whole text (0) to the smallest kernel (6), and bit 7 says
that the pixel is trained on. A word to ignore is text that is not trained on, so it is no negative either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np
import pyclipper
from numpy.typing import NDArray

from trainmark.workloads.psenet.card import NUM_KERNELS, SMALLEST_KERNEL

TRAINED = 1 << NUM_KERNELS
_MAX_OFFSET = 20  # pixels

Polygon = NDArray[np.int32]
"""Corners (x, y) in integer pixels."""


def kernel_rate(number: int) -> float:
    """1 for map 0, 0.4 for map 6."""
    return 1 - (1 - SMALLEST_KERNEL) * number / (NUM_KERNELS - 1)


def shrink_offset(polygon: Polygon, rate: float) -> int:
    """Pixels by which the outline moves inwards, from the polygon's area and perimeter."""
    corners: list[list[int]] = polygon.tolist()  # Python numbers: numpy would take ten times as long for four corners
    sides = list(zip(corners, corners[1:] + corners[:1], strict=True))
    area = abs(sum(x * v - y * u for (x, y), (u, v) in sides)) / 2
    perimeter = sum(math.hypot(u - x, v - y) for (x, y), (u, v) in sides)
    return min(int(area * (1 - rate**2) / (perimeter + 0.001) + 0.5), _MAX_OFFSET)


def shrink(polygon: Polygon, rate: float) -> list[Polygon]:
    """What is left, possibly several pieces; the polygon itself if nothing is."""
    offset = shrink_offset(polygon, rate)
    if offset == 0:
        return [polygon]
    clipper = pyclipper.PyclipperOffset()
    clipper.AddPath(polygon.tolist(), pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    pieces = [np.array(piece, dtype=np.int32) for piece in clipper.Execute(-offset) if len(piece) > 2]
    return pieces or [polygon]


def draw_labels(
    words: Sequence[Polygon], ignored: Sequence[Polygon], *, frame: Polygon, side: int
) -> NDArray[np.uint8]:
    """`frame` is the outline of the photograph in the input; pixels outside of it are not trained on."""
    every = [*words, *ignored]
    maps = np.zeros((NUM_KERNELS + 1, side, side), dtype=np.uint8)
    for number in range(NUM_KERNELS):
        for word in every:
            for piece in shrink(word, kernel_rate(number)) if number else [word]:
                cv2.fillPoly(maps[number], [piece], 1 << number)
    cv2.fillConvexPoly(maps[NUM_KERNELS], frame, TRAINED)
    for word in ignored:
        cv2.fillPoly(maps[NUM_KERNELS], [word], 0)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(maps, axis=0)
    return packed
