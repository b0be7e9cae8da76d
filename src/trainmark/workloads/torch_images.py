"""Pixels as the network wants them, computed on the device: images travel as bytes, a quarter of the size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bytes, ... x height x width x 3, to float32, ... x 3 x height x width. `mean` and `std` are those of 0 to 1."""
    # (x / 255 - mean) / std as one multiplication and one addition.
    scale = _channels([1 / (255 * part) for part in std], images.device)
    shift = _channels([-centre / part for centre, part in zip(mean, std, strict=True)], images.device)
    planes = images.movedim(-1, -3).to(torch.float32, memory_format=torch.contiguous_format)
    return planes.mul_(scale).add_(shift)


def _channels(values: Sequence[float], device: torch.device) -> Tensor:
    """Filled on the device: a tensor made from a list would be copied there, and the host would wait for that."""
    return torch.cat([torch.full((1, 1, 1), value, device=device) for value in values])
