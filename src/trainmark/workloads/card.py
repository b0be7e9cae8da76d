"""What a workload is, without a framework: the facts that specs, plans, reports and engines share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainmark.units import SampleUnit


@dataclass(frozen=True, kw_only=True)
class Size:
    """One input size of a workload."""

    height: int
    width: int
    flops_per_sample: float
    """Of a training step: forward and backward, a multiply-add counted as two."""
    batch_size: int
    """Per device, where the user gives none."""
    num_frames: int = 1
    """Images in a sample: 8 for a clip of TSM."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the learning rate goes; `trainmark.workloads.schedules` computes it.

    Lengths are shares of the whole training, so that a shorter run has the same shape.
    """

    kind: str
    """`cosine`, `poly` or `step`."""
    base_lr: float
    base_batch: int | None
    """The global batch `base_lr` is meant for; it scales linearly from there. None: the recipe does not scale it."""
    epochs: float
    """Of the recipe; a recipe that counts iterations is stated here in epochs of its data set."""
    warmup_share: float = 0.0
    warmup_from: float = 0.0
    """The part of the full rate at which the warm-up begins."""
    milestones: tuple[float, ...] = ()
    """For `step`: shares of the training after which the rate is multiplied by `gamma`."""
    gamma: float = 0.1
    power: float = 0.9
    """For `poly`."""
    eval_epochs: float = 1.0
    """The recipe's interval between evaluations."""


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    momentum: float
    weight_decay: float
    clip_norm: float | None = None
    """The gradients' norm over all parameters is cut to this, after unscaling."""


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
    targets: tuple[Target, ...]
    """All must be reached. The first is the one that `--until-target VALUE` sets."""
    dataset: str
    """The on-disk format, a name of `trainmark data`."""
    source: str
    has_static_shapes: bool = True
    """Whether every step has the same shapes; only then may cuDNN try out its algorithms."""
    sync_batch_norm: bool = False
    """BatchNorm's statistics over all devices."""
