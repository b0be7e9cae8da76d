"""A batch of noise for HRNet, without a framework."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.cityscapes.labels import IGNORED
from trainmark.workloads.card import ImageSize

_REGION = 16
"""Side in pixels of a patch of one class."""
_IGNORED_SHARE = 0.08


def make_batch(
    rng: np.random.Generator,
    *,
    batch_size: int,
    size: ImageSize,
    num_classes: int,
    fixes_choices: bool = False,  # noqa: ARG001 - training makes no random choice
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Bytes, and labels in patches, some of them ignored; one pair, as `collate` gives for crops of one size."""
    rows, columns = -(-size.height // _REGION), -(-size.width // _REGION)
    images = rng.integers(0, 256, (batch_size, size.height, size.width, 3), dtype=np.uint8)
    patches = rng.integers(0, num_classes, (batch_size, rows, columns), dtype=np.uint8)
    patches[rng.random(patches.shape) < _IGNORED_SHARE] = IGNORED
    labels = patches.repeat(_REGION, axis=1).repeat(_REGION, axis=2)[:, : size.height, : size.width]
    return [(images, np.ascontiguousarray(labels))]
