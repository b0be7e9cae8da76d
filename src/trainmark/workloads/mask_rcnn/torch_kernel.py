"""Triton kernels of the static Mask R-CNN: the gradient of pooled regions, and the scan of non-maximum suppression."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

_BINS = 4
WORD = 32
"""Boxes whose overlaps with one other are the bits of one integer."""


@triton.jit
def _spread_kernel(
    gradient, rows, weights, result, num_bins,
    CHANNELS: tl.constexpr, SAMPLES: tl.constexpr, BINS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Each bin adds its gradient to the rows that it was made of."""
    channel = tl.arange(0, CHANNELS)
    for number in tl.static_range(BINS):
        position = tl.program_id(0).to(tl.int64) * BINS + number
        if position < num_bins:
            found = tl.load(gradient + position * CHANNELS + channel).to(tl.float32)
            for sample in range(SAMPLES):
                row = tl.load(rows + position * SAMPLES + sample)
                weight = tl.load(weights + position * SAMPLES + sample)
                tl.atomic_add(result + row * CHANNELS + channel, found * weight, sem="relaxed")


@triton_op("trainmark::spread_regions", mutates_args={})
def spread(gradient: Tensor, rows: Tensor, weights: Tensor, num_rows: int) -> Tensor:
    """`gradient` is bins x channels, `rows` and `weights` are bins x samples; the channels are a power of 2."""
    num_bins, channels = gradient.shape
    result = torch.zeros((num_rows, channels), dtype=torch.float32, device=gradient.device)
    grid = (triton.cdiv(num_bins, _BINS),)
    wrap_triton(_spread_kernel)[grid](
        gradient, rows, weights, result, num_bins, CHANNELS=channels, SAMPLES=rows.shape[1], BINS=_BINS,
    )  # fmt: skip
    return result


@triton.jit
def _either(one, other):
    return one | other


@triton.jit
def _scan_kernel(overlaps, is_valid, kept, WORDS: tl.constexpr):  # noqa: N803
    """Boxes in the order of their scores, 32 at a time: those that no earlier kept box overlaps are kept.

    Inside the 32 the rule is applied 32 times to all of them: after the n-th time the first n are final.
    """
    problem = tl.program_id(0).to(tl.int64)
    lane, word = tl.arange(0, 32), tl.arange(0, WORDS)
    bit = (tl.full([32], 1, tl.int32) << lane).to(tl.int32)
    keep = tl.full([WORDS], 0, tl.int32)
    for block in range(WORDS):
        row = (problem * WORDS + block) * 32 + lane
        tile = tl.load(overlaps + row[:, None] * WORDS + word[None, :])
        is_hit = tl.reduce(tile & keep[None, :], 1, _either)
        own = tl.load(overlaps + row * WORDS + block)
        is_open = (tl.load(is_valid + row) != 0) & (is_hit == 0)
        found = tl.reduce(tl.where(is_open, bit, 0), 0, _either)
        for _ in range(32):
            found = tl.reduce(tl.where(is_open & ((own & found) == 0), bit, 0), 0, _either)
        keep = tl.where(word == block, found, keep)
    tl.store(kept + problem * WORDS + word, keep)


@triton_op("trainmark::scan_overlaps", mutates_args={})
def scan(overlaps: Tensor, is_valid: Tensor) -> Tensor:
    """`overlaps` is problems x boxes x words: bit k of word w of box i says that box 32 w + k < i overlaps box i."""
    problems, _, words = overlaps.shape
    kept = torch.empty((problems, words), dtype=torch.int32, device=overlaps.device)
    wrap_triton(_scan_kernel)[(problems,)](overlaps, is_valid, kept, WORDS=words, num_warps=4)
    return kept
