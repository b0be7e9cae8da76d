"""PSENet-R50 in PyTorch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.optimisations import network_optimisations
from trainmark.workloads.psenet.card import CARD, NUM_KERNELS
from trainmark.workloads.psenet.data import MEAN, STD
from trainmark.workloads.psenet.expansion import Expander, find_boxes
from trainmark.workloads.psenet.labels import TRAINED, kernel_rate
from trainmark.workloads.psenet.metric import count_matches
from trainmark.workloads.psenet.torch_fast import FastPSENet
from trainmark.workloads.psenet.torch_loss import loss_terms
from trainmark.workloads.psenet.torch_model import PSENet
from trainmark.workloads.torch import Examined, ParameterGroup, at_least_float32, normalise

Batch = dict[str, Any]
"""Training: `images` and `labels`, one tensor each. Evaluation: `images`, `quads`, `ignored`, `scale`, a list each."""

_NUM_WORDS = 8
"""Of a synthetic image."""


def build_model(
    *,
    recipe: str,
    device_type: str,
    num_classes: int,  # noqa: ARG001 - there is one
    size: ImageSize,  # noqa: ARG001 - any size
    without: Collection[str] = (),
) -> nn.Module:
    uses = network_optimisations("psenet", device_type, without=without) if recipe == "fast" else frozenset()
    return FastPSENet(uses) if uses else PSENet()


def parameter_groups(model: nn.Module) -> list[ParameterGroup]:
    """The recipe decays all parameters equally."""
    return [ParameterGroup(params=list(model.parameters()), weight_decay=CARD.optimizer.weight_decay)]


def examine(model: nn.Module, batch: Batch) -> Examined:
    logits = model(normalise(batch["images"], MEAN, STD))
    return {"logits": logits}, loss_terms(logits, batch["labels"])


def compute_loss(model: nn.Module, batch: Batch) -> Tensor:
    return total_loss(examine(model, batch)[1])


@torch.no_grad()
def score(model: nn.Module, batch: Batch) -> Tensor:
    """Counts of words: matched, true, found. Images of the same size share a forward pass, unpadded."""
    images: list[Tensor] = batch["images"]
    counts = np.zeros(3)
    for shape in dict.fromkeys(image.shape for image in images):
        members = [number for number, image in enumerate(images) if image.shape == shape]
        logits = model(normalise(torch.stack([images[number] for number in members]), MEAN, STD))
        maps, scores = (part.cpu().numpy() for part in pack_maps(logits))
        expander = Expander(*shape[:2])
        for number, map_, text_score in zip(members, maps, scores, strict=True):
            scale = batch["scale"][number].cpu().numpy()
            found = np.trunc(find_boxes(*expander.expand(map_), text_score) / scale)  # submissions have integers
            true, is_ignored = batch["quads"][number].cpu().numpy(), batch["ignored"][number].cpu().numpy()
            counts += count_matches(found, true, is_ignored)
    return torch.from_numpy(counts).to(images[0].device)


def pack_maps(logits: Tensor) -> tuple[Tensor, Tensor]:
    """A byte per pixel with bit i set if map i is more likely than not, and the text score: 5 bytes instead of 28."""
    bits = torch.zeros_like(logits[:, 0], dtype=torch.uint8)
    for number in range(NUM_KERNELS):
        bits |= (logits[:, number] > 0).to(torch.uint8) << number
    return bits, at_least_float32(logits[:, 0]).sigmoid()


def synthetic_batch(*, batch_size: int, size: ImageSize, num_classes: int, generator: torch.Generator) -> Batch:  # noqa: ARG001
    """Noise, and labels of eight rotated rectangles per image, the last of which is to be ignored."""
    device, shape = generator.device, (batch_size, size.height, size.width)
    images = torch.randint(0, 256, (*shape, 3), dtype=torch.uint8, generator=generator, device=device)
    random = torch.rand((_NUM_WORDS, 5, batch_size, 1, 1), generator=generator, device=device)
    rows = torch.arange(size.height, device=device, dtype=torch.float32)[:, None]
    columns = torch.arange(size.width, device=device, dtype=torch.float32)
    packed = torch.zeros(shape, dtype=torch.uint8, device=device)
    is_trained = torch.ones(shape, dtype=torch.bool, device=device)
    for word, (x, y, turn, length, thickness) in enumerate(random):
        half_height = size.height * (0.02 + 0.05 * thickness)
        half_width = half_height * (1.5 + 3 * length)
        angle = (turn - 0.5) * 1.5
        dx, dy = columns - x * size.width, rows - y * size.height
        along, across = dx * angle.cos() + dy * angle.sin(), dy * angle.cos() - dx * angle.sin()
        depth = torch.minimum(half_width - along.abs(), half_height - across.abs())  # from the outline inwards
        if word == _NUM_WORDS - 1:
            is_trained &= depth < 0
        ratio = half_width * half_height / (half_width + half_height)  # of area to perimeter
        for number in range(NUM_KERNELS):
            offset = (ratio * (1 - kernel_rate(number) ** 2) + 0.5).floor().clamp(max=20)
            packed |= (depth >= offset).to(torch.uint8) << number
    return {"images": images, "labels": packed | is_trained.to(torch.uint8) * TRAINED}
