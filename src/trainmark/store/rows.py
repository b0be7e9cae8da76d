"""A run as the store knows it: the facts of its folder, with the raw steps, nothing computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRow:
    id: str
    cell_id: str
    suite: str | None
    source: str
    """`trainmark` for our own workloads, `command` for the user's own; for imported logs the file they come from."""
    dialect: str | None
    workload: str | None
    model: str | None
    framework: str | None
    recipe: str | None
    precision: str | None
    size: str | None
    device: str | None
    nodes: int | None
    devices: int | None
    """Of all nodes together."""
    batch_size_per_device: int | None
    data: str | None
    epochs: int | None
    seed: int | None
    repeat: int | None
    unit: str
    outcome: str | None
    """None while the run is going on."""
    reason: str
    started_unix_s: float | None
    wall_s: float | None
    seconds: Floats
    """Of each step, in order."""
    samples: Floats
    """Of each step, over all devices."""
    evals: tuple[dict[str, Any], ...] = ()
    warnings: tuple[dict[str, str], ...] = ()
    peak_memory_bytes: int | None = None
    lr: float | None = None
    """The peak learning rate that was asked for; None: the recipe's, which `environment` has."""
    until_target: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    """Seconds in which no step ran, by what was done instead: `eval`, `checkpoint`."""
    resumed_from: str | None = None
    purpose: str | None = None
    """None: a measurement. `find-batch`: a probe of whether a batch fits, which no table shows."""
    num_records: int | None = None
    """Step records in the folder, also those without a speed; None in rows that were made by hand."""
    steps: Floats = field(default_factory=lambda: np.empty(0))
    """Number of the last iteration of each step record; NaN where it is not told."""
    times: Floats = field(default_factory=lambda: np.empty(0))
    """When each step record was made, in seconds since the first; NaN where it is not told."""
    loss_steps: Floats = field(default_factory=lambda: np.empty(0))
    losses: Floats = field(default_factory=lambda: np.empty(0))
    log: dict[str, Any] = field(default_factory=dict)
    """Of an imported log: sha256, scope, is_cumulative, what it states of itself, its target. Empty for our runs."""
    machine: str | None = None
    """The accelerator, or the CPU where there is none."""
    environment: dict[str, Any] = field(default_factory=dict)
