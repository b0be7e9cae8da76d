"""The first layers of ResNet-50 for NVIDIA GPUs, same function and gradients, a better shape for the hardware.

The 7x7 stride-2 convolution sees 3 channels, which the tensor cores cannot use well, and the compiler's gradient of the
max-pool after it visits every candidate window of every pixel. Measured on one H200 in one run (batch 128, bf16,
compiled, whole-step graph): 6489 images/s without this, 6764 with the convolution, 6954 with both.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton
from torch.nn import functional

_BLOCK = 1024
_CHANNEL_PAD = 4
"""12 channels to 16: the tensor cores want a multiple of 8."""


def speed_up_stem(model: nn.Module) -> None:
    """In place; the convolution keeps its parameter, so optimizer and checkpoints see no change."""
    model.conv1 = SpaceToDepthStem(model.conv1)  # type: ignore[arg-type]
    model.maxpool = MaxPool3x3Stride2()


class SpaceToDepthStem(nn.Module):
    """A 7x7 stride-2 convolution as a 4x4 stride-1 one on 2x2 blocks of pixels.

    Put a zero row and column before the 7x7 kernel: an 8x8 kernel with stride 2 that starts one pixel earlier. Blocks
    of 2x2 pixels become channels of both image and kernel: 3 channels at 224 become 12 at 112, 8x8 becomes 4x4.
    """

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        if convolution.kernel_size != (7, 7) or convolution.stride != (2, 2) or convolution.padding != (3, 3):
            raise ValueError("this stem stands for a 7x7 convolution of stride 2 and padding 3")
        self.weight = convolution.weight

    def forward(self, images: Tensor) -> Tensor:
        kernel = _blocks_to_channels(functional.pad(self.weight, (1, 0, 1, 0)))
        kernel = functional.pad(kernel, (0, 0, 0, 0, 0, _CHANNEL_PAD)).contiguous(memory_format=torch.channels_last)
        blocks = functional.pad(_blocks_to_channels(images), (2, 1, 2, 1, 0, _CHANNEL_PAD))
        return functional.conv2d(blocks.contiguous(memory_format=torch.channels_last), kernel)


def _blocks_to_channels(x: Tensor) -> Tensor:
    n, channels, height, width = x.shape
    blocks = x.reshape(n, channels, height // 2, 2, width // 2, 2).permute(0, 3, 5, 1, 2, 4)
    return blocks.reshape(n, 4 * channels, height // 2, width // 2)


class MaxPool3x3Stride2(nn.Module):
    """Max-pool 3x3, stride 2, padding 1 on channels_last tensors with even sides; the first of equal values wins."""

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = _pool(x.contiguous(memory_format=torch.channels_last))[0]
        return pooled


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
def _pool(x: Tensor) -> tuple[Tensor, Tensor]:
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


_pool.register_autograd(_backward, setup_context=_keep_winner)
