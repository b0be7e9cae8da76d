"""What several workloads share in JAX: parameter groups, normalised pixels, losses, counts of correct answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

Model = Callable[..., Array]
"""A network with its parameters: images (n x height x width x 3) to its output."""

Examined = tuple[Mapping[str, Array], Mapping[str, Array]]
"""The outputs of a network in PyTorch's layout, and the terms whose sum is the loss."""


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters with the same weight decay and learning rate."""

    names: Sequence[str]
    weight_decay: float
    lr_scale: float = 1.0
    """Their learning rate, relative to the schedule's."""


def at_least_float32(x: Array) -> Array:
    """Half precision becomes float32; float32 stays, and so does the float64 of a parity check."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def normalise(images: Array, mean: Sequence[float], std: Sequence[float]) -> Array:
    """Bytes (... x 3) to floats; `mean` and `std` are for values 0 to 1.

    In JAX's default type: float32 in training, float64 in a parity check. Done on the device because bytes are a
    quarter of the size to copy there.
    """
    # (x / 255 - mean) / std as one multiplication and one addition.
    kind = jnp.result_type(float)
    scale = jnp.array([1 / (255 * part) for part in std], kind)
    shift = jnp.array([-centre / part for centre, part in zip(mean, std, strict=True)], kind)
    return images.astype(kind) * scale + shift


def cross_entropy(logits: Array, labels: Array, *, smoothing: float = 0.0) -> Array:
    """Of each row; `smoothing` is the part of a label that all classes share. 0 for a label that is no class."""
    log_shares = jax.nn.log_softmax(logits)
    is_right = labels[..., None] == jnp.arange(logits.shape[-1], dtype=labels.dtype)
    right = jnp.where(is_right, log_shares, 0).sum(-1)  # not by index: the gradient of a look-up scatters
    if smoothing == 0:
        return -right
    return -(1 - smoothing) * right - smoothing * log_shares.mean(-1)


def planes_first(x: Array) -> Array:
    """From NHWC to PyTorch's NCHW."""
    return jnp.moveaxis(x, -1, 1)


def count_correct(logits: Array, labels: NDArray[Any] | Array) -> NDArray[np.float64]:
    """Samples, top-1 hits and top-5 hits, as `trainmark.workloads.metric` expects them."""
    scores = np.asarray(logits, dtype=np.float32)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    hits = best == np.asarray(labels)[:, None]
    return np.array([len(hits), hits[:, 0].sum(), hits.sum()], dtype=np.float64)
