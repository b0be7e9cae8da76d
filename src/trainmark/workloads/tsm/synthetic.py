"""A batch of noise for TSM, without a framework."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.card import ImageSize

NUM_FEATURES = 2048
"""Of a frame, where the dropout is."""


def make_batch(
    rng: np.random.Generator,
    *,
    batch_size: int,
    size: ImageSize,
    num_classes: int,
    fixes_choices: bool = False,
) -> dict[str, NDArray[Any]]:
    """Frames as bytes and labels; with `fixes_choices` a number for each feature, which is dropped if below 0.5."""
    shape = (batch_size, size.num_frames)
    batch: dict[str, NDArray[Any]] = {
        "frames": rng.integers(0, 256, (*shape, size.height, size.width, 3), dtype=np.uint8),
        "labels": rng.integers(0, num_classes, batch_size),
    }
    if fixes_choices:
        batch["dropout_keys"] = rng.random((*shape, NUM_FEATURES), dtype=np.float32)
    return batch
