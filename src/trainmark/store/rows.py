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
    machine: str | None = None
    """The accelerator, or the CPU where there is none."""
    environment: dict[str, Any] = field(default_factory=dict)
