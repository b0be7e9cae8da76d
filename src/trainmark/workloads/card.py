"""What a workload is, without a framework: the facts that specs, plans, reports and engines share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainmark.units import SampleUnit


@dataclass(frozen=True, kw_only=True)
class Size:
    """One input size of a workload."""

    image_size: int
    flops_per_sample: float
    """Of a training step: forward and backward, a multiply-add counted as two."""
    batch_size: int
    """Per device, where the user gives none."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the learning rate goes; `trainmark.workloads.schedules` computes it."""

    kind: str
    base_lr: float
    base_batch: int
    """The global batch `base_lr` is meant for; it scales linearly from there."""
    epochs: int
    warmup_epochs: float


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    momentum: float
    weight_decay: float


@dataclass(frozen=True, kw_only=True)
class Target:
    metric: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Card:
    name: str
    title: str
    task: str
    unit: SampleUnit
    frameworks: tuple[str, ...]
    recipes: tuple[str, ...]
    sizes: Mapping[str, Size]
    num_parameters: int
    """Trainable, with the data set's own number of classes."""
    num_classes: int
    num_train_samples: int
    """Of the full public data set: the schedule of a synthetic run is that of the real one."""
    schedule: Schedule
    optimizer: Optimizer
    target: Target
    dataset: str
    """The on-disk format, a name of `trainmark data`."""
    source: str
