"""PSENet-R50 in Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle import Tensor, nn
from paddle.nn import functional

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.paddle import Examined, ParameterGroup, normalise
from trainmark.workloads.psenet.card import CARD, NUM_KERNELS
from trainmark.workloads.psenet.data import MEAN, STD
from trainmark.workloads.psenet.expansion import Expander, find_boxes
from trainmark.workloads.psenet.metric import count_matches
from trainmark.workloads.psenet.paddle_loss import psenet_terms
from trainmark.workloads.psenet.paddle_model import PSENet

Batch = dict[str, Any]
"""Training: `images` and `labels`, one tensor each. Evaluation: `images`, `quads`, `ignored`, `scale`, a list each."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> nn.Layer:  # noqa: ARG001
    return PSENet()


def parameter_groups(model: nn.Layer) -> list[ParameterGroup]:
    """The recipe decays all parameters equally."""
    return [ParameterGroup(params=list(model.parameters()), weight_decay=CARD.optimizer.weight_decay)]


def compute_loss(model: nn.Layer, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def examine(model: nn.Layer, batch: Batch) -> Examined:
    logits = model(normalise(batch["images"], MEAN, STD))
    return {"logits": logits}, psenet_terms(logits, batch["labels"])


@paddle.no_grad()
def score(model: nn.Layer, batch: Batch) -> Tensor:
    """Counts of words: matched, true, found. Images of the same size share a forward pass, unpadded."""
    images: list[Tensor] = batch["images"]
    counts = np.zeros(3)
    shapes = [tuple(image.shape) for image in images]
    for shape in dict.fromkeys(shapes):
        members = [number for number, other in enumerate(shapes) if other == shape]
        logits = model(normalise(paddle.stack([images[number] for number in members]), MEAN, STD))
        maps, scores = _pack_maps(logits), functional.sigmoid(logits[:, 0]).numpy()
        expander = Expander(*shape[:2])
        for number, map_, text_score in zip(members, maps, scores, strict=True):
            scale = batch["scale"][number].numpy()
            found = np.trunc(find_boxes(*expander.expand(map_), text_score) / scale)  # submissions have integers
            counts += count_matches(found, batch["quads"][number].numpy(), batch["ignored"][number].numpy())
    return paddle.to_tensor(counts)


def _pack_maps(logits: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A byte per pixel with bit i set if map i is more likely than not."""
    is_likely = (logits > 0).astype(paddle.uint8).numpy()
    packed = np.zeros_like(is_likely[:, 0])
    for number in range(NUM_KERNELS):
        packed |= is_likely[:, number] << np.uint8(number)
    return packed
