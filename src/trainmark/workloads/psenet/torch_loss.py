"""PSENet's loss: Dice on sigmoids, with hard negatives of the text map chosen on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.labels import TRAINED
from trainmark.workloads.torch import at_least_float32

_TEXT_SHARE, _KERNEL_SHARE = 0.7, 0.3
_SMOOTH = 0.001
_NEGATIVES_PER_POSITIVE = 3


def loss_terms(logits: Tensor, packed: Tensor) -> dict[str, Tensor]:
    """Of (n, 7, h, w) logits and (n, h, w) packed labels; means over the images, in their shares of the loss."""
    text, kernels = unpack(packed)
    is_trained = (packed & TRAINED) != 0
    logits = at_least_float32(logits)
    scores = logits.sigmoid()
    chosen = choose_pixels(logits[:, 0].detach(), text, is_trained)
    text_loss = dice_loss(scores[:, 0], text, chosen)
    kernel_loss = dice_loss(scores[:, 1:], kernels, (text & is_trained)[:, None]).mean(dim=1)
    return {"text": _TEXT_SHARE * text_loss.mean(), "kernels": _KERNEL_SHARE * kernel_loss.mean()}


def unpack(packed: Tensor) -> tuple[Tensor, Tensor]:
    """The text map (n, h, w) and the six kernels (n, 6, h, w), as booleans."""
    kernels = torch.stack([(packed & (1 << number)) != 0 for number in range(1, NUM_KERNELS)], dim=1)
    return (packed & 1) != 0, kernels


def dice_loss(scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """1 - 2 sum(pg) / (sum(p^2) + .001 + sum(g^2) + .001) over the last two dimensions, within the mask."""
    scores = scores * mask
    inside = (target & mask).to(scores.dtype)
    overlap = (scores * inside).sum(dim=(-2, -1))
    total = scores.square().sum(dim=(-2, -1)) + inside.sum(dim=(-2, -1)) + 2 * _SMOOTH
    return 1 - 2 * overlap / total


def choose_pixels(logits: Tensor, text: Tensor, is_trained: Tensor) -> Tensor:
    """The pixels that the text map learns from, per image: all positives and three times as many hard negatives.

    By definition: sort the logits of the negatives and take those not below the k-th, where k is three times the
    number of positives, at most all negatives; without positives or negatives take every trained pixel. As in the
    public code, pixels beside the photograph are negatives in this ranking although they are never trained on, and
    logits are ranked instead of their sigmoids, which are equal for confident pixels. Here the text gets a value below
    all logits, so that the k-th of the whole image is the same number and the choice is the same, ties included (all
    of them are taken). k stays on the device: the host does not wait.
    """
    num_positive, num_negative = (text & is_trained).sum(dim=(1, 2)), (~text).sum(dim=(1, 2))
    num_wanted = torch.minimum(_NEGATIVES_PER_POSITIVE * num_positive, num_negative)
    ranked = torch.where(text, -torch.inf, logits).flatten(1)
    is_fused = torch.compiler.is_compiling() and ranked.dtype is torch.float32  # the passes count through its 32 bits
    find = find_nth_largest if is_fused else sort_nth_largest
    threshold = find(ranked, num_wanted.clamp(min=1))[:, None, None]
    chosen = (text | (logits >= threshold)) & is_trained
    has_both = ((num_positive > 0) & (num_negative > 0))[:, None, None]
    return torch.where(has_both, chosen, is_trained)


def sort_nth_largest(values: Tensor, rank: Tensor) -> Tensor:
    """Of each row, the value with this rank; the largest has rank 1."""
    return values.sort(dim=1, descending=True).values.gather(1, rank[:, None] - 1)[:, 0]


def find_nth_largest(values: Tensor, rank: Tensor) -> Tensor:
    """The same in 17 passes that count, for a compiler to fuse.

    Floats become integers of the same order. The largest integer that at least `rank` values reach is the value
    sought: the first pass finds its sign, the second its highest bit, and each other pass the next two bits.
    """
    keys = _flip_negatives(values.view(torch.int32))
    has_sign = (keys >= 0).sum(dim=1) < rank
    found = torch.where(has_sign, torch.iinfo(torch.int32).min, 0).to(torch.int32)
    found = found + (((keys >= (found + (1 << 30))[:, None]).sum(dim=1) >= rank).to(torch.int32) << 30)
    for shift in range(28, -1, -2):
        reached = [(keys >= (found + (digit << shift))[:, None]).sum(dim=1) >= rank for digit in (1, 2, 3)]
        found = found + (sum(part.to(torch.int32) for part in reached) << shift)
    return _flip_negatives(found).view(torch.float32)


def _flip_negatives(bits: Tensor) -> Tensor:
    """Between a float's bits and the integer of the same order; its own inverse. Negative floats count backwards."""
    return torch.where(bits < 0, bits ^ torch.iinfo(torch.int32).max, bits)
