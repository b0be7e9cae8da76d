"""PSENet's augmentation of a photograph: one affine transform, and a change of colours. No framework.

Scaling, stretching, flipping, rotating and cropping are one matrix, so the pixels are read once, and the words' corners
use the same matrix as the pixels. Kernels are shrunk afterwards: rotating and flipping do not change lengths.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
"""2 x 3, from pixels of the photograph to pixels of the input."""

_SCALES = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
_ASPECTS = (0.9, 0.95, 1.0, 1.05, 1.1)
_MAX_TURN = 10.0  # degrees
_FORCED_PART = 5 / 8
_BRIGHTNESS = 32 / 255
_SATURATION = 0.5
_LUMA = np.array([0.299, 0.587, 0.114])
_MULTIPLE = 32


def train_view(rng: np.random.Generator, *, height: int, width: int, side: int, quads: NDArray[np.float64]) -> Matrix:
    """`quads` (n, 4, 2) are the corners of all words; a forced crop starts within their extent."""
    scale = rng.choice(_SCALES) * side / min(height, width)
    stretch = math.sqrt(rng.choice(_ASPECTS))
    sized = np.array([round_up(width * scale / stretch), round_up(height * scale * stretch)])
    whole = np.diag([sized[0] / width, sized[1] / height, 1.0])
    if rng.random() < 0.5:
        whole = np.array([[-1, 0, sized[0] - 1], [0, 1, 0], [0, 0, 1.0]]) @ whole
    turn = cv2.getRotationMatrix2D((sized / 2).tolist(), rng.uniform(-_MAX_TURN, _MAX_TURN), 1.0)
    matrix: Matrix = turn.astype(np.float64) @ whole
    matrix[:, 2] -= _choose_corner(rng, apply(matrix, quads), sized, side)
    return matrix


def _choose_corner(
    rng: np.random.Generator, quads: NDArray[np.float64], sized: NDArray[np.int64], side: int
) -> NDArray[np.int64]:
    """Of the crop: anywhere, or as the public code draws one near text. A small image is at the top left.

    A forced corner is between the first and the last text pixel in each direction, less the side of the crop, so the
    crop tends to contain text; where no such corner exists it is 0.
    """
    room = np.maximum(sized - side, 0)
    visible = [part for quad in quads if len(part := _clip_to_frame(quad, sized))]
    if rng.random() >= _FORCED_PART or not visible:
        return rng.integers(0, room + 1)
    corners, shown = np.concatenate(visible), np.minimum(sized, side)
    low = np.maximum(corners.min(axis=0).astype(np.int64) - shown, 0)
    high = np.clip(corners.max(axis=0).astype(np.int64) - shown, 0, room)
    return np.where(low < high, rng.integers(low, high + 1), 0)


def _clip_to_frame(quad: NDArray[np.float64], sized: NDArray[np.int64]) -> NDArray[np.float64]:
    """The corners of the part of a polygon within the pixels of the image; empty if all of it is outside."""
    last = sized - 1.0
    if ((quad >= 0) & (quad <= last)).all():
        return quad
    corners: list[list[float]] = quad.tolist()
    for axis in (0, 1):
        for limit, sign in ((0.0, 1.0), (float(last[axis]), -1.0)):
            corners = _clip_to_half(corners, axis, limit, sign)
    return np.array(corners).reshape(-1, 2)


def _clip_to_half(corners: list[list[float]], axis: int, limit: float, sign: float) -> list[list[float]]:
    """The polygon on one side of a line, by Sutherland and Hodgman."""
    kept = []
    for here, there in zip(corners, corners[1:] + corners[:1], strict=True):
        depth, next_depth = sign * (here[axis] - limit), sign * (there[axis] - limit)
        if depth >= 0:
            kept.append(here)
        if depth * next_depth < 0:
            part = depth / (depth - next_depth)
            kept.append([a + part * (b - a) for a, b in zip(here, there, strict=True)])
    return kept


def eval_view(*, height: int, width: int, side: int) -> tuple[Matrix, tuple[int, int]]:
    """Short side to `side`, both sides rounded up to a multiple of 32; also the resulting (height, width)."""
    scale = side / min(height, width)
    sized = round_up(height * scale), round_up(width * scale)
    return np.array([[sized[1] / width, 0, 0], [0, sized[0] / height, 0]]), sized


def round_up(length: float) -> int:
    return math.ceil(int(length + 0.5) / _MULTIPLE) * _MULTIPLE


def apply(matrix: Matrix, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """To (..., 2) points."""
    return points @ matrix[:, :2].T + matrix[:, 2]


def warp(pixels: NDArray[np.uint8], matrix: Matrix, *, height: int, width: int) -> NDArray[np.uint8]:
    """Bilinear; black beyond the photograph."""
    view = cv2.warpAffine(pixels, matrix, (width, height), flags=cv2.INTER_LINEAR)
    return view.astype(np.uint8, copy=False)


def jitter_colours(rng: np.random.Generator, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Brightness and saturation as one colour matrix."""
    brightness = rng.uniform(1 - _BRIGHTNESS, 1 + _BRIGHTNESS)
    saturation = rng.uniform(1 - _SATURATION, 1 + _SATURATION)
    colours = brightness * (saturation * np.eye(3) + (1 - saturation) * _LUMA)
    return cv2.transform(pixels, colours).astype(np.uint8, copy=False)
