"""Crop, antialiased resize, flip and normalise for a whole batch, as two batched matrix products.

A separable resize is linear: out = Wy @ image @ Wx^T, where the rows of W hold the triangle filter of Pillow. The box
is where the rows are non-zero, the flip is their order. So images of different sizes, padded to one size, are
cropped and resized by two `bmm`s on the tensor cores: one launch per batch instead of one call per image.

On a GPU with a compiler, `resample_kernel` does the same in a fraction of the time.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainmark.worker.images import Crops
from trainmark.worker.torch.images import Format


def to_geometry(crops: Crops) -> Tensor:
    """A row for each image: (top, left, height, width, rows, columns, is flipped).

    First the box within the stored crop, then the crop's size, which limits the filter. One tensor, so that there is
    one copy to the device.
    """
    return torch.from_numpy(np.column_stack([crops.boxes, crops.sizes, crops.flips]).astype(np.float32))


def crop_resize(padded: Tensor, geometry: Tensor, wanted: Format) -> Tensor:
    """`padded`: uint8 N x H x W x 3, as decoders write it, with arbitrary bytes beyond the crops."""
    device = padded.device
    # fp16 holds 0..255 exactly and products accumulate in fp32: the error is below a quarter of a grey level.
    work = torch.float16 if device.type == "cuda" else torch.float32
    num, height, width, channels = padded.shape
    size = wanted.image_size
    top, left, tall, wide, num_rows, num_columns, is_flipped = geometry[:, :, None, None].unbind(dim=1)
    rows = _filter(top, tall, num_rows, None, size=size, extent=height).to(work)
    columns = _filter(left, wide, num_columns, is_flipped, size=size, extent=width).to(work)
    low = torch.bmm(rows, padded.reshape(num, height, width * channels).to(work))
    planes = low.reshape(num, size, width, channels).permute(0, 3, 1, 2).reshape(num, -1, width)
    resized = torch.bmm(planes, columns.transpose(1, 2)).reshape(num, channels, size, size)
    scale = torch.tensor([1 / (255 * s) for s in wanted.std], device=device).reshape(1, channels, 1, 1)
    shift = [-m / s for m, s in zip(wanted.mean, wanted.std, strict=True)]
    normalised = resized.float() * scale + torch.tensor(shift, device=device).reshape(1, channels, 1, 1)
    layout = torch.channels_last if wanted.channels_last else torch.contiguous_format
    return normalised.to(wanted.dtype).contiguous(memory_format=layout)


def _filter(start: Tensor, length: Tensor, limit: Tensor, flips: Tensor | None, *, size: int, extent: int) -> Tensor:
    """N x size x extent weights: each output pixel's triangle over the input, within the crop, summing to one."""
    device = start.device
    scale = length / size
    out = torch.arange(size, device=device, dtype=torch.float32)[None, :, None]
    if flips is not None:
        out = torch.where(flips > 0, size - 1 - out, out)
    centre = start + (out + 0.5) * scale
    pixel = torch.arange(extent, device=device, dtype=torch.float32)[None, None, :]
    weight = (1 - (pixel + 0.5 - centre).abs() / scale.clamp(min=1)).clamp(min=0)
    weight = weight * (pixel < limit)
    return weight / weight.sum(dim=2, keepdim=True).clamp(min=1e-6)
