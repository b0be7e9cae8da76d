"""The gradient of a bilinear enlargement by a whole even factor, as a Triton kernel on channels_last tensors."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

_BLOCK = 512


@triton.jit
def _shrink_kernel(
    gradient, result, height, width, num_pixels, row_length, first,
    CHANNELS: tl.constexpr, FACTOR: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """An element of the result sums 2 x 2 factors of pixels; beyond the border the outermost pixel got the weight."""
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    channel = offset % CHANNELS
    position = offset // CHANNELS
    inside = position < num_pixels
    column = (position % width).to(tl.int32)
    row = ((position // width) % height).to(tl.int32)
    image = position // (width * height)
    total = tl.full([BLOCK], 0.0, tl.float32)
    for down in range(2 * FACTOR):
        y = FACTOR * row - FACTOR // 2 + down
        source_y = tl.minimum(tl.maximum((y.to(tl.float32) + 0.5) / FACTOR - 0.5, 0.0), height - 1.0)
        weight_y = 1 - tl.abs(source_y - row.to(tl.float32))
        has_row = inside & (y >= 0) & (y < FACTOR * height)
        start = gradient + (image * height * FACTOR + y) * row_length * width * FACTOR + first + channel
        for right in range(2 * FACTOR):
            x = FACTOR * column - FACTOR // 2 + right
            source_x = tl.minimum(tl.maximum((x.to(tl.float32) + 0.5) / FACTOR - 0.5, 0.0), width - 1.0)
            weight_x = 1 - tl.abs(source_x - column.to(tl.float32))
            found = tl.load(
                start + x.to(tl.int64) * row_length, mask=has_row & (x >= 0) & (x < FACTOR * width), other=0.0
            )
            total += weight_y * weight_x * found.to(tl.float32)
    tl.store(result + offset, total.to(result.dtype.element_ty), mask=inside)


@triton_op("trainmark::shrink", mutates_args={})
def shrink(gradient: Tensor, first: int, num_channels: int, factor: int) -> Tensor:
    """Of the channels from `first` on; `gradient` is channels_last."""
    n, row_length, height, width = gradient.shape
    shape = (n, num_channels, height // factor, width // factor)
    result = torch.empty(shape, dtype=gradient.dtype, device=gradient.device, memory_format=torch.channels_last)
    num_pixels = n * shape[2] * shape[3]
    grid = (triton.cdiv(result.numel(), _BLOCK),)
    wrap_triton(_shrink_kernel)[grid](
        gradient, result, shape[2], shape[3], num_pixels, row_length, first,
        CHANNELS=num_channels, FACTOR=factor, BLOCK=_BLOCK,
    )  # fmt: skip
    return result
