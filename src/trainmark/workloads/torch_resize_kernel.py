"""Bilinear enlargement by a whole even factor, or 1, and its gradient, as Triton kernels on channels_last tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

_BLOCK = 512
_TILE = 2048
"""Elements that one program of the enlargement makes at most."""


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


@triton.jit
def _enlarge_kernel(
    source, result, height, width,
    CHANNELS: tl.constexpr, FACTOR: tl.constexpr, FIRST: tl.constexpr, ROW_LENGTH: tl.constexpr,  # noqa: N803
    PIXELS: tl.constexpr, COLUMNS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Some pixels of one row, with all channels: where to read is found once for each pixel, and reads are wide."""
    row = tl.program_id(0) % (height * FACTOR)
    image = (tl.program_id(0) // (height * FACTOR)).to(tl.int64)
    column = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.arange(0, COLUMNS)[None, :]
    inside = (column < width * FACTOR)[:, None] & (channel < CHANNELS)
    y = tl.maximum((row.to(tl.float32) + 0.5) / FACTOR - 0.5, 0.0)
    x = tl.maximum((column.to(tl.float32) + 0.5) / FACTOR - 0.5, 0.0)
    top, left = y.to(tl.int32), x.to(tl.int32)
    bottom, right = tl.minimum(top + 1, height - 1), tl.minimum(left + 1, width - 1)
    down, along = y - top, (x - left)[:, None]
    upper = source + (image * height + top) * width * CHANNELS + channel
    lower = source + (image * height + bottom) * width * CHANNELS + channel
    left, right = left[:, None] * CHANNELS, right[:, None] * CHANNELS
    above = (1 - along) * tl.load(upper + left, mask=inside, other=0.0).to(tl.float32)
    above += along * tl.load(upper + right, mask=inside, other=0.0).to(tl.float32)
    below = (1 - along) * tl.load(lower + left, mask=inside, other=0.0).to(tl.float32)
    below += along * tl.load(lower + right, mask=inside, other=0.0).to(tl.float32)
    total = (1 - down) * above + down * below
    start = result + tl.program_id(0).to(tl.int64) * width * FACTOR * ROW_LENGTH + FIRST
    tl.store(start + column[:, None] * ROW_LENGTH + channel, total.to(result.dtype.element_ty), mask=inside)


@triton_op("trainmark::enlarge_together", mutates_args={})
def enlarge_together(parts: Sequence[Tensor], height: int, width: int) -> Tensor:
    """All at this size, one after the other along the channels; they are channels_last."""
    n = parts[0].shape[0]
    shape = (n, sum(part.shape[1] for part in parts), height, width)
    result = torch.empty(shape, dtype=parts[0].dtype, device=parts[0].device, memory_format=torch.channels_last)
    first = 0
    for part in parts:
        columns = triton.next_power_of_2(part.shape[1])
        pixels = max(1, _TILE // columns)
        wrap_triton(_enlarge_kernel)[(n * height, triton.cdiv(width, pixels))](
            part, result, part.shape[2], part.shape[3],
            CHANNELS=part.shape[1], FACTOR=height // part.shape[2], FIRST=first, ROW_LENGTH=shape[1],
            PIXELS=pixels, COLUMNS=columns,
        )  # fmt: skip
        first += part.shape[1]
    return result
