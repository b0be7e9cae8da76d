"""How long a run will take, as a range: what it must measure at least and at most, between a set-up and an end.

Set-up, end and the length of a step come from earlier runs in the store, from those most like the cell; where there are
none, from a machine of two cores without a GPU. A training ends by itself, so only earlier runs of the same cell tell.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trainmark.plan.identity import cell_id
from trainmark.spec.cell import Cell
from trainmark.spec.suite import Measure

_SETUP_S = {"reference": (6.0, 20.0), "fast": (30.0, 100.0)}
"""Import, building and (for `fast`) compilation; a cold compile of ResNet-50 took 60 s on an H200. On a CPU `fast`
compiles nothing."""
_END_S = (0.3, 3.0)
_EXCHANGE_S = (2.0, 14.0)
"""Several processes measure their communication after the steps."""
_FAR_STEPS = 3000
"""A measurement looks at so many steps, or at half of its measuring time: see `analyse/stopping.py`."""
_SPREAD = 1.3
"""Between runs of one cell on a machine that does other things too."""
_MOST_SPREAD = 1.7
"""An upper bound of three times the lower one is the most that is of use."""


@dataclass(frozen=True, kw_only=True)
class Duration:
    low_s: float
    high_s: float
    is_learned: bool
    """From earlier runs in this store."""

    @property
    def middle_s(self) -> float:
        """The geometric mean: as many times the low bound as the high bound is of it."""
        return math.sqrt(self.low_s * self.high_s) if self.low_s else self.high_s

    def __add__(self, other: Duration) -> Duration:
        return Duration(
            low_s=self.low_s + other.low_s,
            high_s=self.high_s + other.high_s,
            is_learned=self.is_learned and other.is_learned,
        )


NO_TIME = Duration(low_s=0.0, high_s=0.0, is_learned=True)


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """A finished run, and where its time went."""

    cell_id: str
    workload: str | None
    framework: str | None
    recipe: str | None
    size: str | None
    device: str | None
    devices: int | None
    batch_size_per_device: int | None
    wall_s: float
    setup_s: float | None
    """Until the first step was done."""
    steps_s: float | None
    """From the first step to the last."""
    num_steps: int | None


def estimate(cell: Cell, measure: Measure, past: Sequence[PastRun]) -> Duration | None:
    """None: a training that has no time limit, and that nobody has run yet."""
    limit_s = measure.limit_s(is_training=cell.is_training)
    if cell.is_training:
        whole = Duration(low_s=0.0, high_s=limit_s, is_learned=False) if limit_s is not None else None
        return repeat(cell_id(cell), past) or whole
    same = [run for run in past if run.cell_id == cell_id(cell)]
    alike = same or [run for run in past if _is_alike(run, cell)]
    kin = alike or [run for run in past if _is_kin(run, cell)]
    setup, end = _learn(kin, lambda run: run.setup_s), _learn(kin, _end_s)
    parts = (setup or _usual_setup(cell), _measuring(cell, measure, alike), end or _end(cell))
    low_s, high_s = (sum(bounds) for bounds in zip(*parts, strict=True))
    most = high_s if limit_s is None else min(high_s, limit_s)
    return Duration(low_s=min(low_s, most), high_s=most, is_learned=bool(kin))


def repeat(key: str, past: Sequence[PastRun]) -> Duration | None:
    """As long as runs of the cell with this id took before; None if there are none."""
    walls = [run.wall_s for run in past if run.cell_id == key]
    return Duration(low_s=min(walls) / _SPREAD, high_s=max(walls) * _SPREAD, is_learned=True) if walls else None


def total(durations: Iterable[Duration | None]) -> Duration | None:
    """None if one of them is not known."""
    found = NO_TIME
    for duration in durations:
        if duration is None:
            return None
        found += duration
    return found


def _usual_setup(cell: Cell) -> tuple[float, float]:
    recipe = "reference" if cell.recipe == "fast" and cell.device == "cpu" else cell.recipe
    return _SETUP_S.get(recipe, (6.0, 100.0))


def _measuring(cell: Cell, measure: Measure, alike: Sequence[PastRun]) -> tuple[float, float]:
    step = _learn(alike, lambda run: _step_s(run, cell))
    half = max(measure.min_seconds, measure.max_seconds / 2)
    # Steps on a GPU are short: they reach the number of steps long before half of the time.
    low_s = min(half, measure.min_seconds if cell.device == "cuda" else half)
    high_s = max(measure.min_seconds, measure.max_seconds)
    if step is not None:
        low_s = max(measure.min_seconds, min(half, _FAR_STEPS * step[0]))
    if measure.max_steps is not None:
        low_s = min(low_s, 0.0 if step is None else measure.max_steps * step[0])
        high_s = high_s if step is None else min(high_s, measure.max_steps * step[1])
    return low_s, max(low_s, high_s)


def _end(cell: Cell) -> tuple[float, float]:
    if cell.num_devices == 1:
        return _END_S
    return _END_S[0] + _EXCHANGE_S[0], _END_S[1] + _EXCHANGE_S[1]


def _is_alike(run: PastRun, cell: Cell) -> bool:
    """All but precision, batch size and data."""
    own = (run.workload, run.size, run.devices)
    return _is_kin(run, cell) and own == (cell.workload, cell.size, cell.num_devices)


def _is_kin(run: PastRun, cell: Cell) -> bool:
    """What set-up depends on most: imports and compilation, and whether processes must meet."""
    has_several = run.devices is not None and run.devices > 1
    own = (run.framework, run.recipe, run.device, has_several)
    return own == (cell.framework, cell.recipe, cell.device, cell.num_devices > 1)


def _end_s(run: PastRun) -> float | None:
    return None if run.setup_s is None or run.steps_s is None else max(0.0, run.wall_s - run.setup_s - run.steps_s)


def _step_s(run: PastRun, cell: Cell) -> float | None:
    if not run.num_steps or not run.steps_s or not run.batch_size_per_device:
        return None
    return run.steps_s / run.num_steps * cell.batch_size_per_device / run.batch_size_per_device


def _learn(runs: Sequence[PastRun], value: Callable[[PastRun], float | None]) -> tuple[float, float] | None:
    found = [number for run in runs if (number := value(run)) is not None]
    if not found:
        return None
    usual = statistics.median(found)
    return max(min(found) / _SPREAD, usual / _MOST_SPREAD), min(max(found) * _SPREAD, usual * _MOST_SPREAD)
