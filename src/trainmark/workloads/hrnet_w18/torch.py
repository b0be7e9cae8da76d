"""FCN-HRNetW18 in PyTorch: loss, batches and confusion matrix. The layers are in `torch_network`."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainmark.datasets.cityscapes.labels import IGNORED
from trainmark.workloads.card import ImageSize
from trainmark.workloads.hrnet_w18.card import CARD
from trainmark.workloads.hrnet_w18.data import MEAN, STD
from trainmark.workloads.hrnet_w18.torch_fast import FastNetwork
from trainmark.workloads.hrnet_w18.torch_network import Network
from trainmark.workloads.loss import total_loss
from trainmark.workloads.optimisations import network_optimisations
from trainmark.workloads.torch import Examined, ParameterGroup, at_least_float32, normalise
from trainmark.workloads.torch_parts import uncompiled

Batch = list[tuple[Tensor, Tensor]]
"""Images (n x height x width x 3, uint8) with their labels (n x height x width, uint8), one pair for each image size.

Training has one pair. Evaluation may have more, so that the metric does not depend on which images share a batch.
"""

_FREQUENCIES = (
    0.337, 0.056, 0.210, 0.006, 0.008, 0.012, 0.002, 0.005, 0.146, 0.011,
    0.037, 0.012, 0.0012, 0.064, 0.0025, 0.0022, 0.0021, 0.0009, 0.004, 0.0811,
)  # fmt: skip
"""Approximately those of Cityscapes, in the order of the train ids; the last is for ignored pixels."""
_REGION = 32
"""Side in pixels of a patch of one class in a synthetic label."""


def build_model(
    *,
    recipe: str,
    device_type: str,
    num_classes: int,
    size: ImageSize,  # noqa: ARG001 - any size
    without: Collection[str] = (),
) -> nn.Module:
    uses = network_optimisations("hrnet_w18", device_type, without=without) if recipe == "fast" else frozenset()
    return FastNetwork(num_classes, uses) if uses else Network(num_classes)


def parameter_groups(model: nn.Module) -> list[ParameterGroup]:
    """The recipe decays everything, BatchNorm too."""
    return [ParameterGroup(params=list(model.parameters()), weight_decay=CARD.optimizer.weight_decay)]


def examine(model: nn.Module, batch: Batch) -> Examined:
    """The loss is the mean cross-entropy of the pixels that are not ignored; 0 if there are none."""
    [(images, labels)] = batch
    logits = at_least_float32(model(normalise(images, MEAN, STD)))
    total = functional.cross_entropy(logits, labels.long(), ignore_index=IGNORED, reduction="sum")
    return {"logits": logits}, {"cross_entropy": total / (labels != IGNORED).sum().clamp_min(1)}


@uncompiled  # or the compiler would trace `examine` up to the first part once more, for this function
def compute_loss(model: nn.Module, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


def synthetic_batch(*, batch_size: int, size: ImageSize, num_classes: int, generator: torch.Generator) -> Batch:
    """Noise, and labels in patches with approximately the class frequencies of the real data set."""
    device = generator.device
    shape = (batch_size, size.height, size.width)
    images = torch.randint(0, 256, (*shape, 3), dtype=torch.uint8, generator=generator, device=device)
    is_real = num_classes == CARD.num_classes
    weights = torch.tensor(_FREQUENCIES if is_real else [1.0] * num_classes, device=device)
    rows, columns = -(-size.height // _REGION), -(-size.width // _REGION)
    patches = torch.multinomial(weights, batch_size * rows * columns, replacement=True, generator=generator)
    patches[patches == num_classes] = IGNORED
    patches = patches.to(torch.uint8).reshape(batch_size, rows, columns)
    labels = patches.repeat_interleave(_REGION, 1).repeat_interleave(_REGION, 2)
    return [(images, labels[:, : size.height, : size.width].contiguous())]


def score(model: nn.Module, batch: Batch) -> Tensor:
    """The confusion matrix: row for the true class, column for the predicted one."""
    return torch.stack([_confusion(model(normalise(images, MEAN, STD)), labels) for images, labels in batch]).sum(0)


def _confusion(logits: Tensor, labels: Tensor) -> Tensor:
    num_classes = logits.shape[1]
    num_cells = num_classes * num_classes
    cells = labels.long() * num_classes + logits.argmax(1)
    # Ignored pixels are counted in an extra cell at the end: removing them first would cost a copy.
    cells = torch.where(labels == IGNORED, num_cells, cells)
    counts = torch.bincount(cells.flatten(), minlength=num_cells + 1)
    return counts[:num_cells].reshape(num_classes, num_classes).double()
