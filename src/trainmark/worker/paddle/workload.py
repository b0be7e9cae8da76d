"""What `workloads/<id>/paddle.py` offers the engine. Synthetic batches are those of `synthetic.py` beside it."""

from __future__ import annotations

from typing import Any, Protocol

from paddle import Tensor, nn

from trainmark.workloads.card import Size
from trainmark.workloads.paddle import Examined, ParameterGroup

Batch = Any
"""Tensors in tuples, lists or dicts, nested as the workload likes; the engine only moves and passes them on."""

TensorScores = Any
"""Of one batch: a tensor of counts that add up, in float64 on the device, or a list of items that are collected."""


class PaddleWorkload(Protocol):
    def build_model(self, *, recipe: str, device_type: str, num_classes: int, size: Size) -> nn.Layer: ...

    def parameter_groups(self, model: nn.Layer) -> list[ParameterGroup]: ...

    def examine(self, model: nn.Layer, batch: Batch) -> Examined:
        """What the network gives and the terms of the loss, of a batch on the device; the loss is their sum.

        `model` may be wrapped for several processes. Called under autocast if the precision is mixed. Names and layouts
        are the same in all frameworks.
        """

    def compute_loss(self, model: nn.Layer, batch: Batch) -> Tensor:
        """The sum of the terms of `examine`."""

    def score(self, model: nn.Layer, batch: Batch) -> TensorScores:
        """What the metric needs of one evaluation batch. No sample is padded."""
