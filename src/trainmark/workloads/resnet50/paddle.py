"""ResNet-50 v1.5 in Paddle."""

from __future__ import annotations

from paddle import Tensor, nn

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.paddle import Examined, ParameterGroup, count_correct, cross_entropy
from trainmark.workloads.paddle_layers import batch_norms
from trainmark.workloads.paddle_resnet import ResNet
from trainmark.workloads.resnet50.card import CARD, LABEL_SMOOTHING

Batch = tuple[Tensor, Tensor]
"""Normalised images and labels."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> nn.Layer:  # noqa: ARG001 - any size
    return ResNet(num_classes=num_classes)


def parameter_groups(model: nn.Layer) -> list[ParameterGroup]:
    """BatchNorm is not decayed; everything else is, including the classifier's bias, as in the seed."""
    norms = {id(parameter) for norm in batch_norms(model) for parameter in norm.parameters()}
    decayed = [parameter for parameter in model.parameters() if id(parameter) not in norms]
    exempt = [parameter for parameter in model.parameters() if id(parameter) in norms]
    return [
        ParameterGroup(params=decayed, weight_decay=CARD.optimizer.weight_decay),
        ParameterGroup(params=exempt, weight_decay=0.0),
    ]


def compute_loss(model: nn.Layer, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def examine(model: nn.Layer, batch: Batch) -> Examined:
    inputs, targets = batch
    logits = model(inputs)
    return {"logits": logits}, {"cross_entropy": cross_entropy(logits, targets, smoothing=LABEL_SMOOTHING)}


def score(model: nn.Layer, batch: Batch) -> Tensor:
    inputs, targets = batch
    return count_correct(model(inputs), targets)
