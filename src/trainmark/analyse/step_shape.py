"""The shape of a run's steps, for a picture: which are warm-up, at which levels the others are, which are stalls."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.analysis import find_steady_steps
from trainmark.analyse.diagnosis import find_shape
from trainmark.analyse.regimes import Levels
from trainmark.analyse.stalls import find_stalls
from trainmark.store.rows import RunRow

_MIN_STEPS = 8
_MOST_VALUES = 2048
"""Of a longer series, `find_shape` looks at means of neighbours."""


@dataclass(frozen=True, kw_only=True)
class Level:
    begin: int
    end: int
    """Indices of the first step and of the one after the last."""
    seconds: float
    """Mean of its steps."""


@dataclass(frozen=True, kw_only=True)
class StepShape:
    is_steady: NDArray[np.bool_]
    """For each step whether the throughput rests on it."""
    levels: tuple[Level, ...]
    """Of the steady steps, where there are several; else empty."""
    stalls: tuple[int, ...]
    """Indices of rare steps that took much longer."""


def find_step_shape(row: RunRow) -> StepShape:
    is_steady = find_steady_steps(row)
    places = np.flatnonzero(is_steady)
    durations = row.seconds[is_steady]
    if len(durations) < _MIN_STEPS or row.log.get("is_cumulative"):
        return StepShape(is_steady=is_steady, levels=(), stalls=())
    series = durations / durations.mean()
    stalls = find_stalls(series)
    levels, _ = find_shape(stalls.rest if stalls is not None else series)
    return StepShape(
        is_steady=is_steady,
        levels=tuple(_place_levels(levels, durations, places)) if levels is not None else (),
        stalls=tuple(int(places[place]) for place in stalls.steps) if stalls is not None else (),
    )


def _place_levels(levels: Levels, durations: NDArray[np.float64], places: NDArray[np.intp]) -> list[Level]:
    num = len(durations)
    size = -(-num // _MOST_VALUES)
    changes = [change * size + num % size for change in levels.changes]
    bounds = [0, *changes, num]
    return [
        Level(begin=int(places[begin]), end=int(places[end - 1]) + 1, seconds=float(durations[begin:end].mean()))
        for begin, end in pairwise(bounds)
        if end > begin
    ]
