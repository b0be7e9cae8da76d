"""Max-pool 3x3, stride 2, padding 1 and its gradient, as Triton kernels on channels_last tensors with even sides."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

_BLOCK = 1024


@triton.jit
def _pool_kernel(x, pooled, winner, height, width, channels: tl.constexpr, count, BLOCK: tl.constexpr):  # noqa: N803
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    channel = offset % channels
    position = offset // channels
    column = position % (width // 2)
    row = (position // (width // 2)) % (height // 2)
    image = position // ((width // 2) * (height // 2))
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    best_at = tl.zeros([BLOCK], tl.int32)
    for down in tl.static_range(3):
        for right in tl.static_range(3):
            y = 2 * row - 1 + down
            z = 2 * column - 1 + right
            value = tl.load(
                x + ((image * height + y) * width + z) * channels + channel,
                mask=inside & (y >= 0) & (z >= 0),
                other=float("-inf"),
            ).to(tl.float32)
            better = (value > best) | (value != value)  # a NaN wins, as in the framework's own max-pool
            best = tl.where(better, value, best)
            best_at = tl.where(better, down * 3 + right, best_at)
    tl.store(pooled + offset, best.to(pooled.dtype.element_ty), mask=inside)
    tl.store(winner + offset, best_at.to(tl.int8), mask=inside)


@triton.jit
def _unpool_kernel(gradient, winner, result, height, width, channels: tl.constexpr, count, BLOCK: tl.constexpr):  # noqa: N803
    """One program element writes a 2x2 block of pixels, which only four windows can have chosen from."""
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    channel = offset % channels
    position = offset // channels
    half_width = width // 2
    column = position % half_width
    row = (position // half_width) % (height // 2)
    image = position // (half_width * (height // 2))
    has_right = inside & (column + 1 < half_width)
    has_below = inside & (row + 1 < height // 2)
    has_both = has_right & (row + 1 < height // 2)
    below = channels * half_width
    g00 = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
    w00 = tl.load(winner + offset, mask=inside, other=-1)
    g01 = tl.load(gradient + offset + channels, mask=has_right, other=0.0).to(tl.float32)
    w01 = tl.load(winner + offset + channels, mask=has_right, other=-1)
    g10 = tl.load(gradient + offset + below, mask=has_below, other=0.0).to(tl.float32)
    w10 = tl.load(winner + offset + below, mask=has_below, other=-1)
    g11 = tl.load(gradient + offset + below + channels, mask=has_both, other=0.0).to(tl.float32)
    w11 = tl.load(winner + offset + below + channels, mask=has_both, other=-1)
    zero = tl.zeros([BLOCK], tl.float32)
    kind: tl.constexpr = result.dtype.element_ty
    at = ((image * height + 2 * row) * width + 2 * column) * channels + channel
    upper_right = tl.where(w00 == 5, g00, zero) + tl.where(w01 == 3, g01, zero)
    lower_left = tl.where(w00 == 7, g00, zero) + tl.where(w10 == 1, g10, zero)
    lower_right = tl.where(w00 == 8, g00, zero) + tl.where(w01 == 6, g01, zero)
    lower_right += tl.where(w10 == 2, g10, zero) + tl.where(w11 == 0, g11, zero)
    tl.store(result + at, tl.where(w00 == 4, g00, zero).to(kind), mask=inside)
    tl.store(result + at + channels, upper_right.to(kind), mask=inside)
    tl.store(result + at + width * channels, lower_left.to(kind), mask=inside)
    tl.store(result + at + width * channels + channels, lower_right.to(kind), mask=inside)


@triton_op("trainmark::max_pool_3x3_stride_2", mutates_args={})
def pool(x: Tensor) -> tuple[Tensor, Tensor]:
    n, channels, height, width = x.shape
    shape = (n, channels, height // 2, width // 2)
    pooled = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    winner = torch.empty_like(pooled, dtype=torch.int8)
    count = pooled.numel()
    grid = (triton.cdiv(count, _BLOCK),)
    wrap_triton(_pool_kernel)[grid](x, pooled, winner, height, width, channels, count, BLOCK=_BLOCK)
    return pooled, winner


@triton_op("trainmark::max_pool_3x3_stride_2_backward", mutates_args={})
def _unpool(gradient: Tensor, winner: Tensor) -> Tensor:
    n, channels, height, width = gradient.shape
    shape = (n, channels, 2 * height, 2 * width)
    result = torch.empty(shape, dtype=gradient.dtype, device=gradient.device, memory_format=torch.channels_last)
    count = gradient.numel()
    grid = (triton.cdiv(count, _BLOCK),)
    wrap_triton(_unpool_kernel)[grid](gradient, winner, result, 2 * height, 2 * width, channels, count, BLOCK=_BLOCK)
    return result


def _keep_winner(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:  # noqa: ARG001 - called by name
    ctx.save_for_backward(output[1])


def _backward(context: Any, gradient: Tensor, _: Tensor) -> Tensor:
    (winner,) = context.saved_tensors
    return _unpool(gradient.contiguous(memory_format=torch.channels_last), winner)


pool.register_autograd(_backward, setup_context=_keep_winner)
