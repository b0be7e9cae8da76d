"""A batch of noise for Mask R-CNN, without a framework."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.card import ImageSize

_OBJECTS_PER_IMAGE = 7
_OBJECT_SIDES = (0.1, 0.6)
"""Relative to the short side, log-uniform."""
_MAX_REGIONS = 4096
"""More than proposals and objects of an image."""


def make_batch(
    rng: np.random.Generator,
    *,
    batch_size: int,
    size: ImageSize,
    num_classes: int,
    fixes_choices: bool = False,
) -> dict[str, list[Any]]:
    """Images as bytes with ellipses to find, all of one size; with `fixes_choices` also the numbers that decide which
    anchors and regions are sampled: of the candidates of a kind those with the smallest numbers.

    There are more numbers than anchors or regions; a number belongs to the anchor or region of the same index, anchors
    in the order of the levels and regions in the order of their scores with the objects at the end.
    """
    images = [_image(rng, size) for _ in range(batch_size)]
    targets = [_target(rng, size, num_classes) for _ in images]
    if fixes_choices:
        for target in targets:
            # Three for each cell of 4 x 4 pixels, a quarter of that for the next level and so on, with rounding up.
            target["anchor_keys"] = rng.random(size.height * size.width // 3 + 1024, dtype=np.float32)
            target["region_keys"] = rng.random(_MAX_REGIONS, dtype=np.float32)
    return {"images": images, "targets": targets}


def _image(rng: np.random.Generator, size: ImageSize) -> NDArray[np.uint8]:
    """Grey squares of several sizes and some grain: noise without coarse structure has no features to look at."""
    total = 20 * rng.standard_normal((size.height, size.width, 3)) + 115
    for cell in (8, 16, 32):
        rows, columns = -(-size.height // cell), -(-size.width // cell)
        coarse = 20 * rng.standard_normal((rows, columns, 1)) + 10 * rng.standard_normal((rows, columns, 3))
        total += coarse.repeat(cell, axis=0).repeat(cell, axis=1)[: size.height, : size.width]
    return np.clip(total, 0, 255).astype(np.uint8)


def _target(rng: np.random.Generator, size: ImageSize, num_classes: int) -> dict[str, NDArray[Any]]:
    low, high = (side * size.height for side in _OBJECT_SIDES)
    sides = low * (high / low) ** rng.random((_OBJECTS_PER_IMAGE, 2))
    corners = rng.random((_OBJECTS_PER_IMAGE, 2)) * (np.array([size.width, size.height]) - sides)
    across = (np.arange(size.width) + 0.5 - corners[:, :1]) / sides[:, :1] * 2 - 1
    down = (np.arange(size.height) + 0.5 - corners[:, 1:]) / sides[:, 1:] * 2 - 1
    inside = across[:, None, :] ** 2 + down[:, :, None] ** 2 <= 1
    return {
        "boxes": np.concatenate([corners, corners + sides], axis=1).astype(np.float32),
        "labels": rng.integers(1, num_classes + 1, _OBJECTS_PER_IMAGE),
        "masks": inside.astype(np.uint8),
    }
