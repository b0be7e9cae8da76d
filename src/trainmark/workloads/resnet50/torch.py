"""ResNet-50 v1.5 in PyTorch: torchvision's model, which has the stride in the 3x3 convolution as in v1.5."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.resnet import Bottleneck, ResNet

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.optimisations import network_optimisations
from trainmark.workloads.resnet50.card import CARD, LABEL_SMOOTHING
from trainmark.workloads.torch import Examined, ParameterGroup, at_least_float32, count_correct
from trainmark.workloads.torch_norm import speed_up_norms
from trainmark.workloads.torch_residual import PartedResNet
from trainmark.workloads.torch_stem import speed_up_pool, speed_up_stem

Batch = tuple[Tensor, Tensor]
"""Normalised images and labels."""


_LAYERS = [3, 4, 6, 3]


def build_model(
    *,
    recipe: str,
    device_type: str,
    num_classes: int,
    size: ImageSize,  # noqa: ARG001 - any size
    without: Collection[str] = (),
) -> nn.Module:
    uses = network_optimisations("resnet50", device_type, without=without) if recipe == "fast" else frozenset()
    kind = PartedResNet if "shared_blocks" in uses else ResNet
    model: nn.Module = kind(Bottleneck, _LAYERS, num_classes=num_classes)
    if "block_stem" in uses:
        speed_up_stem(model)
    if "gathering_pool" in uses:
        speed_up_pool(model)
    if "sum_norms" in uses:
        speed_up_norms(model, uses)
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
