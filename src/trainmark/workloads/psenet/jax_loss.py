"""PSENet's loss in JAX: Dice on sigmoids, with hard negatives of the text map chosen on the device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from trainmark.workloads.jax import at_least_float32
from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.labels import TRAINED

_TEXT_SHARE, _KERNEL_SHARE = 0.7, 0.3
_SMOOTH = 0.001
_NEGATIVES_PER_POSITIVE = 3


def loss_terms(logits: Array, packed: Array) -> dict[str, Array]:
    """Of (n, 7, h, w) logits and (n, h, w) packed labels; means over the images, in their shares of the loss."""
    text = (packed & 1) != 0
    kernels = jnp.stack([(packed & (1 << number)) != 0 for number in range(1, NUM_KERNELS)], axis=1)
    is_trained = (packed & TRAINED) != 0
    logits = at_least_float32(logits)
    scores = jax.nn.sigmoid(logits)
    chosen = choose_pixels(lax.stop_gradient(logits[:, 0]), text, is_trained)
    text_loss = dice_loss(scores[:, 0], text, chosen)
    kernel_loss = dice_loss(scores[:, 1:], kernels, (text & is_trained)[:, None]).mean(1)
    return {"text": _TEXT_SHARE * text_loss.mean(), "kernels": _KERNEL_SHARE * kernel_loss.mean()}


def dice_loss(scores: Array, target: Array, mask: Array) -> Array:
    """1 - 2 sum(pg) / (sum(p^2) + .001 + sum(g^2) + .001) over the last two dimensions, within the mask."""
    over = (-2, -1)
    scores = scores * mask
    inside = (target & mask).astype(scores.dtype)
    overlap = (scores * inside).sum(over)
    total = jnp.square(scores).sum(over) + inside.sum(over) + 2 * _SMOOTH
    return 1 - 2 * overlap / total


def choose_pixels(logits: Array, text: Array, is_trained: Array) -> Array:
    """The pixels that the text map learns from; `torch_loss.choose_pixels` says which and why."""
    num_positive, num_negative = (text & is_trained).sum((1, 2)), (~text).sum((1, 2))
    num_wanted = jnp.minimum(_NEGATIVES_PER_POSITIVE * num_positive, num_negative)
    ranked = jnp.where(text, -jnp.inf, logits).reshape(len(logits), -1)
    threshold = find_nth_largest(ranked, jnp.maximum(num_wanted, 1))[:, None, None]
    chosen = (text | (logits >= threshold)) & is_trained
    has_both = ((num_positive > 0) & (num_negative > 0))[:, None, None]
    return jnp.where(has_both, chosen, is_trained)


def find_nth_largest(values: Array, rank: Array) -> Array:
    """Of each row, the value with this rank, the largest being 1: in 17 passes (float64: 33) that count, fused by XLA.

    Floats become integers of the same order. The largest integer that at least `rank` values reach is the value
    sought: the first pass finds its sign, the second its highest bit, and each other pass the next two bits.
    """
    integers = np.int64 if values.dtype == jnp.float64 else np.int32
    limits = np.iinfo(integers)
    keys = _flip_negatives(lax.bitcast_convert_type(values, integers))

    def reaches(limit: Array) -> Array:
        return (keys >= limit[:, None]).sum(1) >= rank

    found = jnp.where(reaches(jnp.zeros(len(values), integers)), 0, limits.min).astype(integers)
    found = found + (reaches(found + (1 << (limits.bits - 2))).astype(integers) << (limits.bits - 2))
    for shift in range(limits.bits - 4, -1, -2):
        digits = [reaches(found + (digit << shift)).astype(integers) for digit in (1, 2, 3)]
        found = found + ((digits[0] + digits[1] + digits[2]) << shift)
    return lax.bitcast_convert_type(_flip_negatives(found), values.dtype)


def _flip_negatives(bits: Array) -> Array:
    """Between a float's bits and the integer of the same order; its own inverse. Negative floats count backwards."""
    return jnp.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
