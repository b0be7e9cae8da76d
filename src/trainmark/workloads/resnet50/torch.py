"""ResNet-50 v1.5 in PyTorch: torchvision's model, which has the stride in the 3x3 convolution as in v1.5."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import resnet50

from trainmark.workloads.card import ImageSize
from trainmark.workloads.resnet50.card import CARD, LABEL_SMOOTHING
from trainmark.workloads.torch import Examined, ParameterGroup, at_least_float32, count_correct, total_loss
from trainmark.workloads.torch_norm import speed_up_norms
from trainmark.workloads.torch_stem import speed_up_stem

Batch = tuple[Tensor, Tensor]
"""Normalised images and labels."""


def build_model(*, recipe: str, device_type: str, num_classes: int, size: ImageSize) -> nn.Module:  # noqa: ARG001 - any size
    model: nn.Module = resnet50(num_classes=num_classes)
    if recipe == "fast" and device_type == "cuda":
        speed_up_stem(model)
        speed_up_norms(model)
    return model


def examine(model: nn.Module, batch: Batch) -> Examined:
    inputs, targets = batch
    # Autocast would leave this log-softmax in half precision: an error of 1% in the gradients of the wrong classes.
    logits = at_least_float32(model(inputs))
    return {"logits": logits}, {
        "cross_entropy": functional.cross_entropy(logits, targets, label_smoothing=LABEL_SMOOTHING)
    }


def compute_loss(model: nn.Module, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def score(model: nn.Module, batch: Batch) -> Tensor:
    inputs, targets = batch
    return count_correct(model(inputs), targets)


def parameter_groups(model: nn.Module) -> list[ParameterGroup]:
    """BatchNorm is not decayed; everything else is, including the classifier's bias, as in the seed."""
    norms = {id(p) for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters(recurse=False)}
    decayed = [p for p in model.parameters() if id(p) not in norms]
    exempt = [p for p in model.parameters() if id(p) in norms]
    return [
        ParameterGroup(params=decayed, weight_decay=CARD.optimizer.weight_decay),
        ParameterGroup(params=exempt, weight_decay=0.0),
    ]


def synthetic_batch(*, batch_size: int, size: ImageSize, num_classes: int, generator: torch.Generator) -> Batch:
    """Normalised noise and random labels, made on the generator's own device."""
    device = generator.device
    inputs = torch.randn((batch_size, 3, size.height, size.width), generator=generator, device=device)
    targets = torch.randint(0, num_classes, (batch_size,), generator=generator, device=device)
    return inputs, targets
