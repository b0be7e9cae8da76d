"""How long a run will take: the median of earlier runs of the same cell, else an upper bound."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainmark.plan.identity import cell_id
from trainmark.spec.cell import Cell
from trainmark.spec.suite import Measure

_SETUP_S = {"reference": 15.0, "fast": 90.0}
"""Import, building and (for `fast`) compilation; a cold compile of ResNet-50 took 60 s on an H200, 88 s on 2 cores."""


@dataclass(frozen=True, kw_only=True)
class Duration:
    seconds: float | None
    """None: a training without a time limit."""
    is_measured: bool
    """From earlier runs in this store; otherwise `seconds` is an upper bound."""


def estimate(cell: Cell, measure: Measure, earlier: Mapping[str, Sequence[float]]) -> Duration:
    walls = earlier.get(cell_id(cell))
    if walls:
        return Duration(seconds=statistics.median(walls), is_measured=True)
    limit_s = measure.limit_s(is_training=cell.is_training)
    if cell.is_training or limit_s is None:
        return Duration(seconds=limit_s, is_measured=False)
    setup_s = _SETUP_S.get(cell.recipe, 60.0)
    return Duration(seconds=min(setup_s + measure.max_seconds, limit_s), is_measured=False)
