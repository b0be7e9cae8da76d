"""Whether many steps stay as close to the reference as the reference stays to itself and to float64.

The reference trains several times on the same samples, whose order inside each step is permuted, from weights that
differ in their last digits: on paper that changes nothing, in floating point it changes the rounding. How far the
losses of one such run are from the mean of the others is the reference's own noise. It grows by orders of magnitude
in a training, so it is taken in windows of steps, and as a logarithm: d(run, window) = log of the root mean square over
the window of log loss minus the mean of log losses. Some rounding is the same in all runs, such as that of a sum that
is always added in one order. It shows in the distance from a run in float64.

Another framework is one more run. In each window its d must not exceed the largest of: the 99% prediction limit for a
new run of the reference (Student's t over the repeats, corrected for the number of windows), twice the reference's
typical distance, and twice its distance from float64: as with rounding, other kernels may cost a factor of two. It has
several runs, of which the nearest counts: an activation whose sign rounding has changed can move a whole run by more
than all other rounding together, but only some runs, while a fault is in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.distributions import t_quantile
from trainmark.analyse.parity import conclude
from trainmark.runfolder.parity import TRAJECTORY, StageRecord

_WINDOWS = 10
_OUTSIDE = 0.01
_LEAST_FACTOR = 2.0
_SMALLEST = 1e-12
"""A relative distance of losses that counts as none."""


def check_trajectory(
    reference: Sequence[NDArray[np.float64]],
    others: Sequence[NDArray[np.float64]],
    *,
    exact: NDArray[np.float64],
    precision: str,
) -> StageRecord:
    """`reference`: the losses of each repeat, step by step; `others`: of the framework's runs; `exact`: in float64.

    Measured is the distance relative to the limit of its window, so the limit is 1.
    """
    logs = np.log(np.stack(reference))
    limits = _limits(logs, np.log(exact))
    runs = [_compare(np.log(np.where(other > 0, other, np.nan)), logs, limits) for other in others]
    found = min(runs, key=lambda run: max(run.values()))
    parts = {name: value if math.isfinite(value) else None for name, value in found.items()}
    return conclude(TRAJECTORY, precision, found, limit=1.0, parts=parts)


def _limits(logs: NDArray[np.float64], exact: NDArray[np.float64]) -> list[tuple[NDArray[np.int64], float]]:
    """The steps of each window and the largest distance there; not finite where a training was not."""
    num_runs, num_steps = logs.shape
    windows = np.array_split(np.arange(num_steps), min(_WINDOWS, num_steps))
    factor = t_quantile(2 * _OUTSIDE / len(windows), num_runs - 1) * math.sqrt(1 + 1 / num_runs)
    limits = []
    for steps in windows:
        apart = [_distance(logs[run], np.delete(logs, run, axis=0), steps) for run in range(num_runs)]
        from_exact = _distance(exact, logs, steps)
        limit = math.inf
        if all(map(math.isfinite, (*apart, from_exact))):
            typical, spread = float(np.mean(apart)), float(np.std(apart, ddof=1))
            limit = max(typical + factor * spread, max(typical, from_exact) + math.log(_LEAST_FACTOR))
        limits.append((steps, limit))
    return limits


def _compare(
    other: NDArray[np.float64], logs: NDArray[np.float64], limits: Sequence[tuple[NDArray[np.int64], float]]
) -> dict[str, float]:
    """One run's distance relative to the limit, for each window of steps."""
    found: dict[str, float] = {}
    for steps, limit in limits:
        distance = _distance(other, logs, steps)
        is_known = math.isfinite(distance) and math.isfinite(limit)
        name = f"steps {steps[0] + 1} to {steps[-1] + 1}"
        found[name] = math.exp(min(distance - limit, 700.0)) if is_known else math.inf
    return found


def _distance(own: NDArray[np.float64], others: NDArray[np.float64], steps: NDArray[np.int64]) -> float:
    apart = own[steps] - others[:, steps].mean(axis=0)
    rms = math.sqrt(float(np.square(apart).mean())) if np.isfinite(apart).all() else math.inf
    return math.log(max(rms, _SMALLEST))
