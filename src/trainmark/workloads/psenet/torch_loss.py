"""PSENet's loss: Dice on sigmoids, with hard negatives of the text map chosen on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.labels import TRAINED

_TEXT_SHARE, _KERNEL_SHARE = 0.7, 0.3
_SMOOTH = 0.001
_NEGATIVES_PER_POSITIVE = 3


def psenet_loss(logits: Tensor, packed: Tensor) -> Tensor:
    """Of (n, 7, h, w) logits and (n, h, w) packed labels; the mean over the images."""
    text, kernels = unpack(packed)
    is_trained = (packed & TRAINED) != 0
    scores = logits.float().sigmoid()
    chosen = choose_pixels(scores[:, 0].detach(), text, is_trained)
    text_loss = dice_loss(scores[:, 0], text, chosen)
    kernel_loss = dice_loss(scores[:, 1:], kernels, (text & is_trained)[:, None]).mean(dim=1)
    return (_TEXT_SHARE * text_loss + _KERNEL_SHARE * kernel_loss).mean()


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


def choose_pixels(scores: Tensor, text: Tensor, is_trained: Tensor) -> Tensor:
    """The pixels that the text map learns from, per image: all positives and three times as many hard negatives.

    By definition: sort the scores of the trained negatives and take those not below the k-th, where k is three times
    the number of positives, at most all negatives; without positives take every trained pixel. Here all other pixels
    get a score below all scores, so that the k-th of the whole image is the same number and the choice is the same,
    ties included (all of them are taken). k stays on the device: the host does not wait.
    """
    positive, negative = text & is_trained, ~text & is_trained
    num_positive, num_negative = positive.sum(dim=(1, 2)), negative.sum(dim=(1, 2))
    num_wanted = torch.minimum(_NEGATIVES_PER_POSITIVE * num_positive, num_negative)
    ranked = torch.where(negative, scores, -1.0).flatten(1)
    find = find_nth_largest if torch.compiler.is_compiling() else sort_nth_largest
    threshold = find(ranked, num_wanted.clamp(min=1))[:, None, None]
    chosen = positive | (negative & (scores >= threshold))
    has_both = ((num_positive > 0) & (num_negative > 0))[:, None, None]
    return torch.where(has_both, chosen, is_trained)


def sort_nth_largest(values: Tensor, rank: Tensor) -> Tensor:
    """Of each row, the value with this rank; the largest has rank 1."""
    return values.sort(dim=1, descending=True).values.gather(1, rank[:, None] - 1)[:, 0]


def find_nth_largest(values: Tensor, rank: Tensor) -> Tensor:
    """The same for values of which those wanted are between 0 and 1: in 15 passes that count, for a compiler to fuse.

    Floats from 0 up have the order of their bits. The largest number that at least `rank` values reach is the value
    sought; each pass finds its next two bits. 1.0 has bit 29 as its highest.
    """
    bits = values.view(torch.int32)  # negative for negative values
    found = torch.zeros_like(rank, dtype=torch.int32)
    for shift in range(28, -1, -2):
        reached = [(bits >= (found + (digit << shift))[:, None]).sum(dim=1) >= rank for digit in (1, 2, 3)]
        found = found + (sum(part.to(torch.int32) for part in reached) << shift)
    return found.view(torch.float32)
