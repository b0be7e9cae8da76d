"""Boxes of Mask R-CNN on the host: overlaps, offsets, matches, samples. No framework; the type of the input stays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[Any]
"""Rows of (left, top, right, bottom)."""

BACKGROUND, IGNORED = -1, -2
_MAX_STRETCH = math.log(1000 / 16)
"""Limit of the logarithm of a change of size."""


def overlaps(one: Boxes, two: Boxes) -> NDArray[Any]:
    """Intersection over union of every box of `one` with every box of `two`."""
    corner = np.maximum(one[:, None, :2], two[None, :, :2])
    far = np.minimum(one[:, None, 2:], two[None, :, 2:])
    sides = np.maximum(far - corner, 0)
    inside = sides[:, :, 0] * sides[:, :, 1]
    shares: NDArray[Any] = inside / (areas(one)[:, None] + areas(two)[None] - inside)
    return shares


def areas(boxes: Boxes) -> NDArray[Any]:
    products: NDArray[Any] = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return products


def encode(wanted: Boxes, given: Boxes, weights: tuple[float, float, float, float]) -> NDArray[Any]:
    """The offsets that lead from `given` to `wanted`, row by row."""
    sides, wanted_sides = given[:, 2:] - given[:, :2], wanted[:, 2:] - wanted[:, :2]
    centres, wanted_centres = given[:, :2] + 0.5 * sides, wanted[:, :2] + 0.5 * wanted_sides
    shifts = (wanted_centres - centres) / sides
    plain = np.concatenate([shifts, np.log(wanted_sides / sides)], axis=1)
    offsets: NDArray[Any] = plain * np.array(weights, dtype=plain.dtype)
    return offsets


def decode(offsets: NDArray[Any], given: Boxes, weights: tuple[float, float, float, float]) -> Boxes:
    """n x 4k offsets of n boxes to n x 4k boxes."""
    parts = offsets.reshape(len(given), -1, 4) / np.array(weights, dtype=offsets.dtype)
    sides = (given[:, 2:] - given[:, :2])[:, None]
    centres = given[:, None, :2] + 0.5 * sides
    moved = parts[:, :, :2] * sides + centres
    half = 0.5 * (np.exp(np.minimum(parts[:, :, 2:], _MAX_STRETCH)) * sides)
    return np.concatenate([moved - half, moved + half], axis=2).reshape(offsets.shape)


def clip(boxes: Boxes, size: tuple[int, int]) -> Boxes:
    """To an image of (height, width)."""
    height, width = size
    return np.clip(boxes, 0, np.array([width, height, width, height], dtype=boxes.dtype))


def is_large(boxes: Boxes, least: float) -> NDArray[np.bool_]:
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    large: NDArray[np.bool_] = (width >= least) & (height >= least)
    return large


def match(truth: Boxes, boxes: Boxes, *, high: float, low: float, takes_best: bool) -> NDArray[np.int64]:
    """For each box the true one that it overlaps most, or `BACKGROUND` below `low`, or `IGNORED` below `high`.

    `takes_best`: a true box also gets those that overlap it most, ties included, however little that is.
    """
    quality = overlaps(truth, boxes)
    nearest = quality.argmax(axis=0)
    best = quality.max(axis=0)
    matched = np.where(best < low, BACKGROUND, np.where(best < high, IGNORED, nearest))
    if takes_best:
        is_best = (quality == quality.max(axis=1, keepdims=True)).any(axis=0)
        matched = np.where(is_best, nearest, matched)
    return matched


def sample(
    labels: NDArray[Any], keys: NDArray[Any], *, num_wanted: int, positive_share: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which positives (labels from 1) and negatives (0) are taken: of each kind those with the smallest keys."""
    positive = _smallest(keys, labels >= 1, int(num_wanted * positive_share))
    return positive, _smallest(keys, labels == 0, num_wanted - int(positive.sum()))


def _smallest(keys: NDArray[Any], is_candidate: NDArray[np.bool_], num_wanted: int) -> NDArray[np.bool_]:
    candidates = np.flatnonzero(is_candidate)
    order = keys[: len(is_candidate)][candidates].argsort(kind="stable")
    taken = np.zeros(len(is_candidate), dtype=bool)
    taken[candidates[order[:num_wanted]]] = True
    return taken
