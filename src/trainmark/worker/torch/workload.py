"""What `workloads/<id>/torch.py` offers the engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from trainmark.workloads.card import Size
from trainmark.workloads.torch import Examined, ParameterGroup

Batch = Any
"""Tensors in tuples, lists or dicts, nested as the workload likes; the engine only moves and passes them on."""

TensorScores = Tensor | list[dict[str, Any]]
"""Of one batch: counts that add up, in float64 on the device, or items that are collected."""


class TorchWorkload(Protocol):
    def build_model(
        self, *, recipe: str, device_type: str, num_classes: int, size: Size, without: Collection[str] = ()
    ) -> nn.Module:
        """`without`: names of `OPTIMISATIONS` that the recipe `fast` is to leave out."""

    def parameter_groups(self, model: nn.Module) -> list[ParameterGroup]: ...

    def examine(self, model: nn.Module, batch: Batch) -> Examined:
        """What the network gives and the terms of the loss, of a batch on the device. `model` may be wrapped for DDP.

        Called under autocast if the precision is mixed. Names and layouts are the same in all frameworks.
        """

    def compute_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum of the terms of `examine`."""

    def synthetic_batch(self, *, batch_size: int, size: Size, num_classes: int, generator: torch.Generator) -> Batch:
        """A seeded batch on the generator's own device, with targets like those of real data."""

    def score(self, model: nn.Module, batch: Batch) -> TensorScores:
        """What the metric needs of one evaluation batch. No sample is padded."""
