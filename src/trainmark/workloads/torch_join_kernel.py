"""The gradient of a ReLU that has two users, and what BatchNorm needs of it, in one pass as a Triton kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from trainmark.workloads.torch_norm import JOINED_CHANNELS

_NUM_ROWS = 32
_LEAST_ROUNDS = 3
_NUM_PROGRAMS = 2112
"""16 for each multiprocessor of an H200."""


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _join_kernel(
    one, other, output, branch, passed, sums, num_pixels, num_splits, pixels_of_split,
    CHANNELS: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """A program has some channels of some pixels; the sums of each are added up afterwards."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    split = tl.program_id(1)
    first = split * pixels_of_split
    end = tl.minimum(first + pixels_of_split, num_pixels)
    total = tl.full([ROWS, COLUMNS], 0.0, tl.float32)
    weighted = tl.full([ROWS, COLUMNS], 0.0, tl.float32)
    for start in range(first, end, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < end)[:, None]
        at = row.to(tl.int64)[:, None] * CHANNELS + column[None, :]
        gradient = tl.load(one + at, mask=inside, other=0.0).to(tl.float32)
        gradient += tl.load(other + at, mask=inside, other=0.0).to(tl.float32)
        positive = tl.load(output + at, mask=inside, other=0.0).to(tl.float32) > 0
        x = tl.load(branch + at, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.where(positive, gradient, 0.0)
        tl.store(passed + at, gradient.to(passed.dtype.element_ty), mask=inside)
        total += gradient
        weighted += gradient * x
    to = sums + split * CHANNELS + column
    tl.store(to, tl.reduce(total, 0, _add))
    tl.store(to + num_splits * CHANNELS, tl.reduce(weighted, 0, _add))


@triton_op("trainmark::join_gradients", mutates_args={})
def join_gradients(one: Tensor, other: Tensor, output: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
    """All channels_last. Returns what ReLU passes, and its sums over pixels, also those times `branch`, in parts."""
    n, channels, height, width = output.shape
    num_pixels = n * height * width
    num_columns = channels // JOINED_CHANNELS
    most = triton.cdiv(num_pixels, _LEAST_ROUNDS * _NUM_ROWS)
    wanted = max(1, min(_NUM_PROGRAMS // num_columns, most))
    pixels_of_split = triton.cdiv(triton.cdiv(num_pixels, wanted), _NUM_ROWS) * _NUM_ROWS
    num_splits = triton.cdiv(num_pixels, pixels_of_split)
    passed = torch.empty_like(output)
    sums = torch.empty((2, num_splits, channels), dtype=torch.float32, device=output.device)
    wrap_triton(_join_kernel)[(num_columns, num_splits)](
        one, other, output, branch, passed, sums, num_pixels, num_splits, pixels_of_split,
        CHANNELS=channels, COLUMNS=JOINED_CHANNELS, ROWS=_NUM_ROWS,
    )  # fmt: skip
    return passed, sums
