"""What `workloads/<id>/jax.py` offers the engine."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from jax import Array

from trainmark.workloads.card import Size
from trainmark.workloads.data import Arrays
from trainmark.workloads.jax import Examined, Model, ParameterGroup
from trainmark.workloads.jax_layers import Declared, Forward
from trainmark.workloads.metric import Scores

Batch = Any
"""Arrays in tuples, lists or dicts, nested as the workload likes; the engine only moves and passes them on."""


class JaxWorkload(Protocol):
    def build_model(self, *, recipe: str, device_type: str, num_classes: int, size: Size) -> Forward: ...

    def parameter_groups(self, declared: Declared) -> list[ParameterGroup]: ...

    def examine(self, model: Model, batch: Batch) -> Examined:
        """The network's outputs, and the terms of the loss."""

    def compute_loss(self, model: Model, batch: Batch) -> Array:
        """The sum of the terms, of a batch on the device. Traced once."""

    def synthetic_batch(self, *, batch_size: int, size: Size, num_classes: int, rng: np.random.Generator) -> Arrays:
        """A seeded batch on the host, with targets like those of real data."""

    def score(self, model: Model, batch: Arrays) -> Scores:
        """What the metric needs of one evaluation batch, which is on the host. No sample is padded."""
