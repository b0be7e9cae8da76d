"""RoIAlign over all levels of a pyramid at once, with a fixed number of regions: the function of torchvision's.

All levels lie in one table with a row of channels for each pixel. A value of a region is a weighted sum of 16 rows:
four samples of its bin, four pixels around each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trainmark.workloads.torch import to_type

_SAMPLES = 2
"""Per side of a bin."""
_CANONICAL_SIDE, _CANONICAL_LEVEL = 224, 2
"""A region of 224 x 224 is pooled from P4, the third of the levels."""
_TINY = 1e-6


def pool_regions(features: Sequence[Tensor], boxes: Tensor, *, side: int) -> Tensor:
    """From images x channels x height x width of each level and images x regions x 4 to (images x regions) x channels x
    `side` x `side`. The levels have strides 4, 8, 16 and 32.
    """
    table = torch.cat([level.permute(0, 2, 3, 1).flatten(1, 2) for level in features], dim=1)
    sizes = [(level.shape[2], level.shape[3]) for level in features]
    rows, weights = _sample(boxes, sizes, side)
    pooled: Tensor = _Pool.apply(table.flatten(0, 1), rows, weights)
    regions: Tensor = pooled.unflatten(0, (-1, side, side))
    return regions.permute(0, 3, 1, 2)


def _sample(boxes: Tensor, sizes: Sequence[tuple[int, int]], side: int) -> tuple[Tensor, Tensor]:
    """Rows of the table and their weights, (images x regions x side x side) x 16 each."""
    level = _levels(boxes, len(sizes))
    heights, widths = (_of_level(level, [size[axis] for size in sizes]) for axis in (0, 1))
    starts = [sum(height * width for height, width in sizes[:number]) for number in range(len(sizes))]
    num_pixels = sum(height * width for height, width in sizes)
    scale = 0.25 * torch.exp2(-level.to(boxes.dtype))
    left, top, right, bottom = (boxes * scale[..., None]).unbind(-1)
    y0, y1, wy0, wy1 = _sample_axis(top, bottom, heights, side)
    x0, x1, wx0, wx1 = _sample_axis(left, right, widths, side)
    images = torch.arange(boxes.shape[0], device=boxes.device)[:, None] * num_pixels
    first = (images + _of_level(level, starts))[..., None, None, None, None]
    pairs = []
    for y, wy in ((y0, wy0), (y1, wy1)):
        for x, wx in ((x0, wx0), (x1, wx1)):
            row = first + y[..., :, None, :, None] * widths[..., None, None, None, None] + x[..., None, :, None, :]
            pairs.append((row, wy[..., :, None, :, None] * wx[..., None, :, None, :]))
    rows, weights = (torch.stack(parts, dim=-1).flatten(-3).flatten(0, -2) for parts in zip(*pairs, strict=True))
    return rows, weights / _SAMPLES**2


def _levels(boxes: Tensor, num_levels: int) -> Tensor:
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    found = torch.floor(_CANONICAL_LEVEL + torch.log2((width * height).sqrt() / _CANONICAL_SIDE) + _TINY)
    return found.clamp(0, num_levels - 1).long()


def _of_level(level: Tensor, values: Sequence[int]) -> Tensor:
    """The value of each region's level, without a copy from the host."""
    result = torch.full_like(level, values[0])
    for number, value in enumerate(values[1:], start=1):
        result = torch.where(level == number, value, result)
    return result


def _sample_axis(begin: Tensor, end: Tensor, limit: Tensor, side: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Along one axis, ... x side x samples: the pixels before and behind each sample, and their weights."""
    length = (end - begin).clamp_min(1.0) / side
    steps = torch.arange(side * _SAMPLES, device=begin.device, dtype=begin.dtype).unflatten(0, (side, _SAMPLES))
    place = begin[..., None, None] + (steps + 0.5) / _SAMPLES * length[..., None, None]
    last = (limit - 1)[..., None, None]
    is_outside = (place < -1) | (place > last + 1)
    place = torch.minimum(place.clamp_min(0), last.to(place.dtype))
    low = place.floor().long()
    behind = place - low
    weight = torch.where(is_outside, 0.0, 1.0)
    return low, torch.minimum(low + 1, last), weight * (1 - behind), weight * behind


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weights)
        ctx.shape, ctx.dtype = table.shape, table.dtype
        return to_type((table[rows] * weights[..., None]).sum(1), table.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        rows, weights = ctx.saved_tensors
        if gradient.is_cuda:
            from trainmark.workloads.mask_rcnn.torch_kernel import spread

            return spread(gradient.contiguous(), rows, weights, ctx.shape[0]).to(ctx.dtype), None, None
        wide = gradient.to(weights.dtype)
        parts = (wide[:, None] * weights[..., None]).flatten(0, 1)
        result = torch.zeros(ctx.shape, dtype=weights.dtype, device=gradient.device)
        return result.index_add_(0, rows.flatten(), parts).to(ctx.dtype), None, None
