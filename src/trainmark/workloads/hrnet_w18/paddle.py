"""FCN-HRNetW18 in Paddle: loss, batches and confusion matrix. The layers are in `paddle_model`."""

from __future__ import annotations

import paddle
from paddle import Tensor, nn
from paddle.nn import functional

from trainmark.datasets.cityscapes.labels import IGNORED
from trainmark.workloads.card import ImageSize
from trainmark.workloads.hrnet_w18.card import CARD
from trainmark.workloads.hrnet_w18.data import MEAN, STD
from trainmark.workloads.hrnet_w18.paddle_model import Network
from trainmark.workloads.loss import total_loss
from trainmark.workloads.paddle import Examined, ParameterGroup, at_least_float, normalise

Batch = list[tuple[Tensor, Tensor]]
"""Images (n x height x width x 3, uint8) with their labels (n x height x width, uint8), one pair for each size."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> nn.Layer:  # noqa: ARG001 - for any
    return Network(num_classes)


def parameter_groups(model: nn.Layer) -> list[ParameterGroup]:
    """The recipe decays everything, BatchNorm too."""
    return [ParameterGroup(params=list(model.parameters()), weight_decay=CARD.optimizer.weight_decay)]


def compute_loss(model: nn.Layer, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def examine(model: nn.Layer, batch: Batch) -> Examined:
    """The loss is the mean cross-entropy of the pixels that are not ignored; 0 if there are none."""
    [(images, labels)] = batch
    logits = at_least_float(model(normalise(images, MEAN, STD)))
    total = functional.cross_entropy(logits, labels.astype(paddle.int64), ignore_index=IGNORED, reduction="sum", axis=1)
    num_pixels = (labels != IGNORED).astype(logits.dtype).sum().clip(min=1)
    return {"logits": logits}, {"cross_entropy": total / num_pixels}


def score(model: nn.Layer, batch: Batch) -> Tensor:
    """The confusion matrix: row for the true class, column for the predicted one."""
    return paddle.stack([_confusion(model(normalise(images, MEAN, STD)), labels) for images, labels in batch]).sum(0)


def _confusion(logits: Tensor, labels: Tensor) -> Tensor:
    num_classes = logits.shape[1]
    num_cells = num_classes * num_classes
    cells = labels.astype(paddle.int64) * num_classes + logits.argmax(1)
    # Ignored pixels are counted in an extra cell at the end: removing them first would cost a copy.
    cells = paddle.where(labels == IGNORED, paddle.full_like(cells, num_cells), cells)
    counts = paddle.bincount(cells.flatten(), minlength=num_cells + 1)
    return counts[:num_cells].reshape([num_classes, num_classes]).astype(paddle.float64)
