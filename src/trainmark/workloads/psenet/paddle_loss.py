"""PSENet's loss in Paddle: Dice on sigmoids, with hard negatives of the text map; `torch_loss` explains the choice."""

from __future__ import annotations

import paddle
from paddle import Tensor
from paddle.nn import functional

from trainmark.workloads.paddle import sum_pixels
from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.labels import TRAINED

_TEXT_SHARE, _KERNEL_SHARE = 0.7, 0.3
_SMOOTH = 0.001
_NEGATIVES_PER_POSITIVE = 3


def psenet_terms(logits: Tensor, packed: Tensor) -> dict[str, Tensor]:
    """Of (n, 7, h, w) logits and (n, h, w) packed labels; means over the images, with their shares of the loss."""
    text, is_trained = _has_bit(packed, 1), _has_bit(packed, TRAINED)
    kernels = paddle.stack([_has_bit(packed, 1 << number) for number in range(1, NUM_KERNELS)], axis=1)
    scores = functional.sigmoid(logits)
    chosen = choose_pixels(logits[:, 0].detach(), text, is_trained)
    text_loss = dice_loss(scores[:, 0], text, chosen)
    kernel_loss = dice_loss(scores[:, 1:], kernels, (text & is_trained).unsqueeze(1)).mean(axis=1)
    return {"text": _TEXT_SHARE * text_loss.mean(), "kernels": _KERNEL_SHARE * kernel_loss.mean()}


def _has_bit(packed: Tensor, bit: int) -> Tensor:
    return (packed & paddle.full_like(packed, bit)) != 0


def dice_loss(scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """1 - 2 sum(pg) / (sum(p^2) + .001 + sum(g^2) + .001) over the last two dimensions, within the mask."""
    scores = scores * mask.astype(scores.dtype)
    inside = (target & mask).astype(scores.dtype)
    overlap = sum_pixels(scores * inside)
    total = sum_pixels(scores.square()) + sum_pixels(inside) + 2 * _SMOOTH
    return 1 - 2 * overlap / total


def choose_pixels(logits: Tensor, text: Tensor, is_trained: Tensor) -> Tensor:
    """The pixels that the text map learns from, per image: all positives and three times as many hard negatives."""
    num_positive = (text & is_trained).astype(paddle.int64).sum(axis=[1, 2])
    num_negative = (~text).astype(paddle.int64).sum(axis=[1, 2])
    num_wanted = paddle.minimum(_NEGATIVES_PER_POSITIVE * num_positive, num_negative).clip(min=1)
    ranked = paddle.where(text, paddle.full_like(logits, -float("inf")), logits).flatten(1)
    in_order = ranked.sort(axis=1, descending=True)
    threshold = in_order.take_along_axis((num_wanted - 1).unsqueeze(1), axis=1).unsqueeze(2)
    chosen = (text | (logits >= threshold)) & is_trained
    has_both = ((num_positive > 0) & (num_negative > 0)).reshape([-1, 1, 1])
    return (chosen & has_both) | (is_trained & ~has_both)
