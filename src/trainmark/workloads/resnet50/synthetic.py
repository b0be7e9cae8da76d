"""A batch of noise for ResNet-50, without a framework."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.card import ImageSize

Batch = tuple[NDArray[Any], NDArray[Any]]


def make_batch(
    rng: np.random.Generator,
    *,
    batch_size: int,
    size: ImageSize,
    num_classes: int,
    fixes_choices: bool = False,  # noqa: ARG001 - training makes no random choice
) -> Batch:
    """Normalised images (n x 3 x height x width) and labels, as the feed gives them."""
    images = rng.standard_normal((batch_size, 3, size.height, size.width), dtype=np.float32)
    return images, rng.integers(0, num_classes, batch_size)
