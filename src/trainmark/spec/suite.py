"""A suite: what to measure and how long, as typed frozen data. TOML files and the command line both become this."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainmark.silence_limit import SilenceLimit
from trainmark.spec.cell import DataSource
from trainmark.spec.cluster import Cluster

_SPARE_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How long to measure. Not part of a cell's identity: measuring longer measures the same thing."""

    target_ci: float = 0.01
    """Stop when the 95% interval is within this fraction of the throughput."""
    min_seconds: float = 5.0
    """Never stop earlier, however steady it looks."""
    max_seconds: float = 120.0
    """Stop measuring then, known well enough or not (not counting set-up, compilation and evaluation)."""
    max_steps: int | None = None
    """Stop after this many steps; None: no such limit."""
    timeout_s: float | None = None
    """End a run that takes longer than this in all, set-up included: outcome `timeout`. None: see `limit_s`."""
    hang_least_s: float | None = None
    """No step for this long, and for `hang_factor` times the usual step, is a hang; None: see `SilenceLimit`."""
    hang_factor: float = SilenceLimit.factor

    def limit_s(self, *, is_training: bool) -> float | None:
        """Half an hour for all but the measuring, unless told; a training ends when it is done, or hangs."""
        if self.timeout_s is not None or is_training:
            return self.timeout_s
        return self.max_seconds + _SPARE_S


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The product of its axes. `None` for device or batch size: what suits this machine or the recipe's own."""

    workload: str
    framework: tuple[str, ...] | None = None
    """None: the first of the workload's card."""
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
    """True: the recipe's own target; a number: this value of its first metric."""
    seed: int = 0
    repeat: int = 1


@dataclass(frozen=True, kw_only=True)
class Suite:
    name: str
    summary: str = ""
    measure: Measure = field(default_factory=Measure)
    cluster: Cluster = field(default_factory=Cluster)
    sweeps: tuple[Sweep, ...] = ()
