"""PSENet-R50 in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from trainmark.workloads.card import ImageSize
from trainmark.workloads.jax import Examined, Model, ParameterGroup, at_least_float32, normalise, planes_first
from trainmark.workloads.jax_layers import Declared, Forward, Kind
from trainmark.workloads.loss import total_loss
from trainmark.workloads.psenet.card import CARD, NUM_KERNELS
from trainmark.workloads.psenet.data import MEAN, STD
from trainmark.workloads.psenet.expansion import Expander, find_boxes
from trainmark.workloads.psenet.jax_loss import loss_terms
from trainmark.workloads.psenet.jax_network import network
from trainmark.workloads.psenet.metric import count_matches
from trainmark.workloads.psenet.synthetic import make_batch

Batch = dict[str, Any]
"""Training: `images` and `labels`, one array each. Evaluation: `images`, `quads`, `ignored`, `scale`, a list each."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> Forward:  # noqa: ARG001 - any
    return network


def parameter_groups(declared: Declared) -> list[ParameterGroup]:
    """The recipe decays all parameters equally."""
    names = [name for name, found in declared.items() if found.kind is not Kind.STATISTIC]
    return [ParameterGroup(names=names, weight_decay=CARD.optimizer.weight_decay)]


def examine(model: Model, batch: Batch) -> Examined:
    logits = planes_first(model(normalise(batch["images"], MEAN, STD)))
    return {"logits": logits}, loss_terms(logits, batch["labels"])


def compute_loss(model: Model, batch: Batch) -> Array:
    return total_loss(examine(model, batch)[1])


def score(model: Model, batch: Batch) -> NDArray[np.float64]:
    """Counts of words: matched, true, found. Images of the same size share a forward pass, unpadded."""
    images: list[NDArray[np.uint8]] = batch["images"]
    counts = np.zeros(3)
    for shape in dict.fromkeys(image.shape for image in images):
        members = [number for number, image in enumerate(images) if image.shape == shape]
        logits = model(normalise(jnp.asarray(np.stack([images[number] for number in members])), MEAN, STD))
        maps, scores = (np.asarray(part) for part in pack_maps(logits))
        expander = Expander(*shape[:2])
        for number, map_, text_score in zip(members, maps, scores, strict=True):
            found = find_boxes(*expander.expand(map_), text_score) / batch["scale"][number]
            counts += count_matches(np.trunc(found), batch["quads"][number], batch["ignored"][number])
    return counts


@jax.jit
def pack_maps(logits: Array) -> tuple[Array, Array]:
    """A byte per pixel with bit i set if map i is more likely than not, and the text score: 5 bytes instead of 28."""
    bits = jnp.zeros(logits.shape[:3], jnp.uint8)
    for number in range(NUM_KERNELS):
        bits |= (logits[..., number] > 0).astype(jnp.uint8) << number
    return bits, jax.nn.sigmoid(at_least_float32(logits[..., 0]))


def synthetic_batch(
    *, batch_size: int, size: ImageSize, num_classes: int, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    return make_batch(rng, batch_size=batch_size, size=size, num_classes=num_classes)
