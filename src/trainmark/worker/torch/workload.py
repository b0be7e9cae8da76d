"""What `workloads/<id>/torch.py` and `metric.py` offer the engine. A workload is these functions and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainmark.workloads.card import Size

Batch = Any
"""Tensors in tuples, lists or dicts, nested as the workload likes; the engine only moves them and passes them on."""

Scores = Tensor | list[dict[str, Any]]
"""Of one batch or of all: counts that add up, or items that are collected."""


class TorchWorkload(Protocol):
    def build_model(self, *, recipe: str, device_type: str, num_classes: int, size: Size) -> nn.Module: ...

    def parameter_groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """`params`, `weight_decay` and, where it is not 1, `lr_scale`."""

    def compute_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Of a batch on the device, under autocast where the precision is mixed. `model` may be wrapped for DDP."""

    def synthetic_batch(self, *, batch_size: int, size: Size, num_classes: int, generator: torch.Generator) -> Batch:
        """A seeded batch on the generator's own device, with targets like those of real data."""

    def collate(self, samples: Sequence[Mapping[str, NDArray[Any]]]) -> Batch:
        """Samples of the pipeline to a batch of tensors on the host; called in the loader's processes."""

    def score(self, model: nn.Module, batch: Batch) -> Scores:
        """What the metric needs of one evaluation batch, in float64 on the device or as items. No sample is padded."""


class Metric(Protocol):
    def summarise(self, scores: NDArray[Any] | list[dict[str, Any]], truth: Any) -> dict[str, float]:
        """Metrics between 0 and 1 by name, from the scores of all ranks; empty where nothing was seen."""
