"""A suite: what to measure and for how long. TOML files and the command line are both read into this."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainmark.silence_limit import SilenceLimit
from trainmark.spec.cell import DataSource
from trainmark.spec.cluster import Cluster

_SPARE_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How long to measure. Not part of the identity of a cell: measuring longer measures the same thing."""

    target_ci: float = 0.01
    """Stop when the 95% interval is within this fraction of the throughput."""
    min_seconds: float = 5.0
    """Minimum measuring time."""
    max_seconds: float = 120.0
    """Maximum measuring time, without set-up, compilation and evaluation."""
    max_steps: int | None = None
    """Stop after this many steps; None: no limit."""
    timeout_s: float | None = None
    """Kill a run that takes longer in total, including set-up: outcome `timeout`. None: see `limit_s`."""
    hang_least_s: float | None = None
    """No step for this long, and for `hang_factor` times the usual step, is a hang; None: see `SilenceLimit`."""
    hang_factor: float = SilenceLimit.factor

    def limit_s(self, *, is_training: bool) -> float | None:
        """By default half an hour beyond the measuring time; a training has no limit."""
        if self.timeout_s is not None or is_training:
            return self.timeout_s
        return self.max_seconds + _SPARE_S


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The product of its axes. `None` for device or batch size: what suits this machine or the recipe's own."""

    workload: str
    framework: tuple[str, ...] | None = None
    """None: the first on the workload's card that is installed, else the first."""
    recipe: tuple[str, ...] = ("reference",)
    precision: tuple[str, ...] = ("fp32",)
    size: tuple[str, ...] = ("full",)
    device: str | None = None
    nodes: tuple[int, ...] = (1,)
    devices: tuple[int, ...] = (1,)
    batch_size: tuple[int, ...] | None = None
    data: tuple[DataSource, ...] = (DataSource(),)
    epochs: int | None = None
    lr: float | None = None
    until_target: bool | float = False
    """True: the target of the recipe; a number: this value of its first metric."""
    seed: int = 0
    repeat: int = 1
    weights: str | None = None
    """Path of a file of weights to start from; None: the workload's own random ones."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    name: str
    summary: str = ""
    measure: Measure = field(default_factory=Measure)
    cluster: Cluster = field(default_factory=Cluster)
    sweeps: tuple[Sweep, ...] = ()
