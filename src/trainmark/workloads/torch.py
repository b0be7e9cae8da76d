"""What several workloads share: arrays as tensors, normalised pixels, sums of losses, counts of correct answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree

from trainmark.workloads.data import Arrays

Examined = tuple[dict[str, Tensor], dict[str, Tensor]]
"""What the network gives and the terms of the loss, by names that are the same in all frameworks."""


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters with the same weight decay and learning rate."""

    params: Sequence[Tensor]
    weight_decay: float
    lr_scale: float = 1.0
    """Their learning rate, relative to the schedule's."""


def to_tensors(arrays: Arrays) -> Any:
    """The same nesting with tensors that share the arrays' memory."""
    return _pytree.tree_map_only(np.ndarray, torch.from_numpy, arrays)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision becomes float32; float32 stays, and so does the float64 of a parity check."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def to_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x.to(dtype)`, but not where it changes nothing.

    It then returns the same tensor, and for an own autograd function that returns one under two names PyTorch 2.11
    compiles a gradient of zero (its issue 180642).
    """
    return x if x.dtype is dtype else x.to(dtype)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bytes (... x height x width x 3) to floats (... x 3 x height x width); `mean` and `std` are for values 0 to 1.

    In PyTorch's default type: float32 in training, float64 in a parity check. Done on the device because bytes are a
    quarter of the size to copy there.
    """
    # (x / 255 - mean) / std as one multiplication and one addition.
    scale = _channels([1 / (255 * part) for part in std], images.device)
    shift = _channels([-centre / part for centre, part in zip(mean, std, strict=True)], images.device)
    planes = images.movedim(-1, -3).to(torch.get_default_dtype(), memory_format=torch.contiguous_format)
    return planes.mul_(scale).add_(shift)


def _channels(values: Sequence[float], device: torch.device) -> Tensor:
    """Filled on the device: a tensor made from a list would be copied there, and the host would wait for that."""
    return torch.cat([torch.full((1, 1, 1), value, device=device) for value in values])


def count_correct(logits: Tensor, targets: Tensor) -> Tensor:
    """Samples, top-1 hits and top-5 hits, as `trainmark.workloads.metric` expects them."""
    best = logits.topk(min(5, logits.shape[1]), dim=1).indices
    hits = best == targets[:, None]
    num_samples = torch.full((), len(targets), device=logits.device)
    return torch.stack([num_samples, hits[:, :1].sum(), hits.sum()]).double()
