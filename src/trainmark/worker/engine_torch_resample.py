"""Crop, antialiased resize, flip and normalise for a whole batch, as two batched matrix products.

A separable resize is linear: out = Wy @ image @ Wx^T, with rows of W holding the triangle filter that Pillow uses. The
crop is where the rows are non-zero, the flip is their order. So images of different sizes, padded to one, are cropped
and resized by two `bmm`s on the tensor cores: one launch for a batch, where a call for each image costs a core.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def crop_resize(
    padded: Tensor,
    boxes: Tensor,
    flips: Tensor,
    *,
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    dtype: torch.dtype,
    channels_last: bool,
) -> Tensor:
    """`padded`: uint8 N x H x W x 3, as decoders write it; `boxes`: (top, left, height, width) of each."""
    device = padded.device
    # fp16 holds 0..255 exactly and the products accumulate in fp32: off by less than a quarter of a grey level.
    work = torch.float16 if device.type == "cuda" else torch.float32
    num, height, width, channels = padded.shape
    rows = _filter(boxes[:, 0], boxes[:, 2], image_size, height, None).to(work)
    columns = _filter(boxes[:, 1], boxes[:, 3], image_size, width, flips).to(work)
    low = torch.bmm(rows, padded.reshape(num, height, width * channels).to(work))
    planes = low.reshape(num, image_size, width, channels).permute(0, 3, 1, 2).reshape(num, -1, width)
    resized = torch.bmm(planes, columns.transpose(1, 2)).reshape(num, channels, image_size, image_size)
    scale = torch.tensor([1 / (255 * s) for s in std], device=device).reshape(1, channels, 1, 1)
    shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=device).reshape(1, channels, 1, 1)
    normalised = resized.float() * scale + shift
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return normalised.to(dtype).contiguous(memory_format=layout)


def _filter(start: Tensor, length: Tensor, size: int, extent: int, flips: Tensor | None) -> Tensor:
    """N x size x extent weights: each output pixel's triangle over the input, within the box, summing to one."""
    device = start.device
    scale = (length / size)[:, None, None]
    out = torch.arange(size, device=device, dtype=torch.float32)[None, :, None]
    if flips is not None:
        out = torch.where(flips[:, None, None], size - 1 - out, out)
    centre = start[:, None, None] + (out + 0.5) * scale
    pixel = torch.arange(extent, device=device, dtype=torch.float32)[None, None, :]
    weight = (1 - (pixel + 0.5 - centre).abs() / scale.clamp(min=1)).clamp(min=0)
    inside = (pixel >= start.floor()[:, None, None]) & (pixel < (start + length).ceil()[:, None, None])
    weight = weight * inside
    return weight / weight.sum(dim=2, keepdim=True).clamp(min=1e-6)
