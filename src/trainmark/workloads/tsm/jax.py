"""TSM-ResNet50 in JAX: ResNet-50 over all frames, with the temporal shift in its residual blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from trainmark.workloads.card import ImageSize
from trainmark.workloads.jax import (
    Examined,
    Model,
    ParameterGroup,
    at_least_float32,
    count_correct,
    cross_entropy,
    normalise,
)
from trainmark.workloads.jax_layers import Declared, Forward, Kind, Layers, dropout, linear, normal, zeros
from trainmark.workloads.jax_resnet import pool, stages, stem
from trainmark.workloads.loss import total_loss
from trainmark.workloads.tsm.card import CARD, DROPOUT
from trainmark.workloads.tsm.data import MEAN, STD

Batch = dict[str, Array]
"""`frames` and `labels`; in a parity check also `dropout_keys`, clips x frames x features."""

_SHARE = 8
"""One channel in eight comes from the next frame, another one in eight from the previous frame."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> Forward:  # noqa: ARG001 - any
    """`unshifted` is the control: the same network, which cannot see the order of the frames."""

    def unshifted(x: Array) -> Array:
        return x

    before = unshifted if recipe == "unshifted" else partial(shift, num_frames=size.num_frames)

    def forward(layers: Layers, images: Array, dropout_keys: Array | None = None) -> Array:
        """(clips x frames) images to clips x classes: the mean of the frames' logits."""
        features = pool(stages(layers, stem(layers, images), before=before)[-1])
        kept = dropout(layers, features, DROPOUT, dropout_keys)
        logits = linear(layers, "fc", kept, num_classes, weight=partial(normal, deviation=0.001), bias=zeros)
        return at_least_float32(logits).reshape(-1, size.num_frames, num_classes).mean(1)

    return forward


def shift(x: Array, *, num_frames: int) -> Array:
    """(clips x frames) x height x width x channels; the ends of a clip are padded with zeros."""
    clips = x.reshape(-1, num_frames, *x.shape[1:])
    fold = x.shape[-1] // _SHARE
    around = ((0, 0), (0, 0), (0, 0))
    ahead = jnp.pad(clips[:, 1:, ..., :fold], ((0, 0), (0, 1), *around))
    behind = jnp.pad(clips[:, :-1, ..., fold : 2 * fold], ((0, 0), (1, 0), *around))
    return jnp.concatenate([ahead, behind, clips[..., 2 * fold :]], axis=-1).reshape(x.shape)


def parameter_groups(declared: Declared) -> list[ParameterGroup]:
    """Biases learn twice as fast as weights, the classifier five times; neither biases nor BatchNorm are decayed."""
    decay = CARD.optimizer.weight_decay
    classifier = ("fc.weight", "fc.bias")
    weights = [name for name, found in declared.items() if found.kind is Kind.WEIGHT and name not in classifier]
    norms = [name for name, found in declared.items() if found.kind is Kind.NORM]
    return [
        ParameterGroup(names=weights, weight_decay=decay),
        ParameterGroup(names=norms, weight_decay=0.0),
        ParameterGroup(names=["fc.weight"], weight_decay=decay, lr_scale=5.0),
        ParameterGroup(names=["fc.bias"], weight_decay=0.0, lr_scale=10.0),
    ]


def examine(model: Model, batch: Batch) -> Examined:
    logits = _logits(model, batch)
    return {"logits": logits}, {"cross_entropy": cross_entropy(logits, batch["labels"]).mean()}


def compute_loss(model: Model, batch: Batch) -> Array:
    return total_loss(examine(model, batch)[1])


def score(model: Model, batch: dict[str, Any]) -> NDArray[np.float64]:
    return count_correct(_logits(model, batch), batch["labels"])


def _logits(model: Model, batch: Batch) -> Array:
    frames = jnp.asarray(batch["frames"])
    images = normalise(frames.reshape(-1, *frames.shape[2:]), MEAN, STD)
    keys = batch.get("dropout_keys")
    return model(images) if keys is None else model(images, keys.reshape(-1, keys.shape[-1]))


def synthetic_batch(
    *, batch_size: int, size: ImageSize, num_classes: int, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Noise as bytes, and labels that are equally frequent, as they nearly are in Kinetics."""
    frames = rng.integers(0, 256, (batch_size, size.num_frames, size.height, size.width, 3), dtype=np.uint8)
    return {"frames": frames, "labels": rng.integers(0, num_classes, batch_size)}
