"""What a workload is: the facts that specs, plans, reports and engines share. No framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Size:
    """One input size of a workload. The engine passes it on; what a sample measures is in the subclasses."""

    flops_per_sample: float
    """Of a training step: forward and backward, a multiply-add counted as two."""
    batch_size: int
    """Per device, by default."""


@dataclass(frozen=True, kw_only=True)
class ImageSize(Size):
    height: int
    width: int
    num_frames: int = 1
    """Images per sample: 8 for a clip of TSM."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate over time; `trainmark.workloads.schedules` computes it.

    Lengths are fractions of the whole training, so that a shorter run has the same shape.
    """

    kind: str
    """`cosine`, `poly` or `step`."""
    base_lr: float
    base_batch: int | None
    """The global batch that `base_lr` is for; the rate scales linearly with the batch. None: it does not scale."""
    epochs: float
    """Of the recipe; a recipe that counts iterations is stated here in epochs of its data set."""
    warmup_share: float = 0.0
    warmup_steps: int = 0
    """Instead of a share: as many steps at every batch size, fewer in proportion in a training of fewer epochs."""
    warmup_from: float = 0.0
    """Fraction of the full rate at which the warm-up starts."""
    milestones: tuple[float, ...] = ()
    """For `step`: fractions of the training after which the rate is multiplied by `gamma`."""
    gamma: float = 0.1
    power: float = 0.9
    """For `poly`."""
    eval_epochs: float = 1.0
    """The recipe's interval between evaluations."""


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """What all optimizers have; `worker/<framework>/` maps each subclass to the framework's own implementation."""

    weight_decay: float
    clip_norm: float | None = None
    """Limit of the gradients' norm over all parameters, applied after unscaling."""


@dataclass(frozen=True, kw_only=True)
class Sgd(Optimizer):
    momentum: float


@dataclass(frozen=True, kw_only=True)
class AdamW(Optimizer):
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8


@dataclass(frozen=True, kw_only=True)
class Target:
    metric: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Card:
    name: str
    title: str
    task: str
    unit: str
    """Plural of what a sample is: images, clips, sentences."""
    frameworks: tuple[str, ...]
    recipes: tuple[str, ...]
    """Of all frameworks together."""
    sizes: Mapping[str, Size]
    num_parameters: int
    """Trainable, with the data set's own number of classes."""
    num_classes: int
    num_train_samples: int
    """Of the full public data set: the schedule of a synthetic run is that of the real one."""
    schedule: Schedule
    optimizer: Optimizer
    targets: tuple[Target, ...]
    """All must be reached. `--until-target VALUE` sets the first."""
    dataset: str
    """The on-disk format, a name of `trainmark data`."""
    source: str
    version: int = 1
    """Raised when the work changes (data, model, loss, augmentation): numbers of two versions are not averaged."""
    has_static_shapes: bool = True
    """Whether every step has the same shapes; only then is it worth letting cuDNN benchmark its algorithms."""
    starts_uniform: bool = False
    """Whether the first loss is near ln(classes): cross-entropy, with untrained weights that prefer no class."""
    sync_batch_norm: bool = False
    """Whether BatchNorm computes its statistics over all devices."""
    recipes_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The recipes of a framework that does not have all of them."""
