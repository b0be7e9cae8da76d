"""A batch of noise for PSENet, without a framework."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.card import ImageSize
from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.labels import TRAINED, kernel_rate

_NUM_WORDS = 8
_MAX_OFFSET = 20


def make_batch(
    rng: np.random.Generator,
    *,
    batch_size: int,
    size: ImageSize,
    num_classes: int,  # noqa: ARG001 - text or not
    fixes_choices: bool = False,  # noqa: ARG001 - training makes no random choice
) -> dict[str, NDArray[Any]]:
    """Bytes, and packed labels of eight upright words per image, the last of which is to be ignored."""
    images = rng.integers(0, 256, (batch_size, size.height, size.width, 3), dtype=np.uint8)
    labels = np.stack([_labels(rng, size) for _ in range(batch_size)])
    return {"images": images, "labels": labels}


def _labels(rng: np.random.Generator, size: ImageSize) -> NDArray[np.uint8]:
    rows, columns = np.mgrid[: size.height, : size.width]
    packed = np.zeros((size.height, size.width), np.uint8)
    is_trained = np.ones_like(packed, dtype=bool)
    for word in range(_NUM_WORDS):
        x, y, length, thickness = rng.random(4)
        half_height = size.height * (0.02 + 0.05 * thickness)
        half_width = half_height * (1.5 + 3 * length)
        across, along = np.abs(rows - y * size.height), np.abs(columns - x * size.width)
        depth = np.minimum(half_width - along, half_height - across)  # from the outline inwards
        if word == _NUM_WORDS - 1:
            is_trained &= depth < 0
        ratio = half_width * half_height / (half_width + half_height)  # of area to perimeter
        for number in range(NUM_KERNELS):
            offset = min(_MAX_OFFSET, np.floor(ratio * (1 - kernel_rate(number) ** 2) + 0.5))
            packed |= (depth >= offset).astype(np.uint8) << number
    return packed | is_trained.astype(np.uint8) * np.uint8(TRAINED)
