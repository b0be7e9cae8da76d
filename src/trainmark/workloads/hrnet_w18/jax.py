"""FCN-HRNetW18 in JAX: loss, batches and confusion matrix. The layers are in `jax_network`."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from trainmark.datasets.cityscapes.labels import IGNORED
from trainmark.workloads.card import ImageSize
from trainmark.workloads.hrnet_w18.card import CARD
from trainmark.workloads.hrnet_w18.data import MEAN, STD
from trainmark.workloads.hrnet_w18.jax_network import network
from trainmark.workloads.hrnet_w18.synthetic import make_batch
from trainmark.workloads.jax import (
    Examined,
    Model,
    ParameterGroup,
    at_least_float32,
    cross_entropy,
    normalise,
    planes_first,
)
from trainmark.workloads.jax_layers import Declared, Forward, Kind
from trainmark.workloads.loss import total_loss

Batch = list[tuple[Array, Array]]
"""Images (n x height x width x 3, uint8) with their labels (n x height x width, uint8), one pair for each image size.

Training has one pair. Evaluation may have more, so that the metric does not depend on which images share a batch.
"""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> Forward:  # noqa: ARG001 - any
    return partial(network, num_classes=num_classes)


def parameter_groups(declared: Declared) -> list[ParameterGroup]:
    """The recipe decays everything, BatchNorm too."""
    names = [name for name, found in declared.items() if found.kind is not Kind.STATISTIC]
    return [ParameterGroup(names=names, weight_decay=CARD.optimizer.weight_decay)]


def examine(model: Model, batch: Batch) -> Examined:
    """The loss is the mean cross-entropy of the pixels that are not ignored; 0 if there are none."""
    [(images, labels)] = batch
    logits = at_least_float32(model(normalise(images, MEAN, STD)))
    total = cross_entropy(logits, labels).sum()  # no class has the number of an ignored pixel
    num_pixels = jnp.maximum((labels != IGNORED).sum(), 1)
    return {"logits": planes_first(logits)}, {"cross_entropy": total / num_pixels}


def compute_loss(model: Model, batch: Batch) -> Array:
    return total_loss(examine(model, batch)[1])


def synthetic_batch(
    *, batch_size: int, size: ImageSize, num_classes: int, rng: np.random.Generator
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    return make_batch(rng, batch_size=batch_size, size=size, num_classes=num_classes)


def score(model: Model, batch: list[tuple[NDArray[Any], NDArray[Any]]]) -> NDArray[np.float64]:
    """The confusion matrix: row for the true class, column for the predicted one."""
    parts = [_confusion(model(normalise(jnp.asarray(images), MEAN, STD)), labels) for images, labels in batch]
    total: NDArray[np.float64] = np.sum(parts, axis=0)
    return total


def _confusion(logits: Array, labels: NDArray[Any]) -> NDArray[np.float64]:
    num_classes = logits.shape[-1]
    found = np.asarray(jnp.argmax(logits, axis=-1))  # on the device: the numbers of classes are a twentieth to copy
    is_counted = labels != IGNORED
    cells = labels[is_counted].astype(np.int64) * num_classes + found[is_counted]
    counts = np.bincount(cells, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes).astype(np.float64)
