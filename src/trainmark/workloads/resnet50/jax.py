"""ResNet-50 v1.5 in JAX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax import Array
from numpy.typing import NDArray

from trainmark.workloads.card import ImageSize
from trainmark.workloads.jax import Examined, Model, ParameterGroup, at_least_float32, count_correct, cross_entropy
from trainmark.workloads.jax_layers import Declared, Forward, Kind, Layers, linear, torch_default
from trainmark.workloads.jax_resnet import WIDTHS, pool, stages, stem
from trainmark.workloads.loss import total_loss
from trainmark.workloads.resnet50.card import CARD, LABEL_SMOOTHING

Batch = tuple[Array, Array]
"""Normalised images (n x height x width x 3) and labels."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> Forward:  # noqa: ARG001 - any
    def forward(layers: Layers, images: Array) -> Array:
        return classify(layers, pool(stages(layers, stem(layers, images))[-1]), num_classes)

    return forward


def classify(layers: Layers, features: Array, num_classes: int) -> Array:
    def bias(rng: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
        return torch_default(rng, shape, fan_in=4 * WIDTHS[-1])

    return linear(layers, "fc", features, num_classes, weight=torch_default, bias=bias)


def examine(model: Model, batch: Batch) -> Examined:
    images, labels = batch
    logits = at_least_float32(model(images))
    return {"logits": logits}, {"cross_entropy": cross_entropy(logits, labels, smoothing=LABEL_SMOOTHING).mean()}


def compute_loss(model: Model, batch: Batch) -> Array:
    return total_loss(examine(model, batch)[1])


def score(model: Model, batch: Batch) -> NDArray[np.float64]:
    images, labels = batch
    return count_correct(model(images), labels)


def parameter_groups(declared: Declared) -> list[ParameterGroup]:
    """BatchNorm is not decayed; everything else is, including the classifier's bias, as in the seed."""
    decayed = [name for name, found in declared.items() if found.kind in (Kind.WEIGHT, Kind.BIAS)]
    exempt = [name for name, found in declared.items() if found.kind is Kind.NORM]
    return [
        ParameterGroup(names=decayed, weight_decay=CARD.optimizer.weight_decay),
        ParameterGroup(names=exempt, weight_decay=0.0),
    ]


def synthetic_batch(
    *, batch_size: int, size: ImageSize, num_classes: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Normalised noise and random labels."""
    images = rng.standard_normal((batch_size, size.height, size.width, 3), dtype=np.float32)
    return images, rng.integers(0, num_classes, batch_size)
