"""Throughput of one run, with an interval that knows that steps are not independent."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.interval import log_interval
from trainmark.analyse.longrun import long_run_variance
from trainmark.analyse.series import read_series
from trainmark.analyse.steady import find_steady_start

METHOD = "ar-t"

MIN_STEPS = 8
"""Fewer steady steps have no interval: independent steps would be covered, but even a mild correlation would not."""


def estimate_throughput(seconds: ArrayLike, samples: ArrayLike) -> Estimate:
    """Samples per second of the steady state of a run with these step durations."""
    durations, counts = read_series(seconds, samples)
    start = find_steady_start(durations)
    return _estimate_steady(durations[start:], counts[start:], num_warmup_steps=start)


def _estimate_steady(durations: NDArray[np.float64], counts: NDArray[np.float64], *, num_warmup_steps: int) -> Estimate:
    n = len(durations)
    value = float(counts.sum() / durations.sum())
    if n < MIN_STEPS:
        return Estimate(
            value=value,
            ci95=None,
            num_steps=n,
            num_warmup_steps=num_warmup_steps,
            method="none",
            std_error=None,
            dof=None,
        )
    # The logarithm of a ratio of sums moves, to first order, by the mean of these.
    influence = counts / counts.mean() - durations / durations.mean()
    long_run = long_run_variance(influence, rounding=1e-12)
    relative_error = math.sqrt(long_run.variance / n)
    return Estimate(
        value=value,
        ci95=log_interval(value, relative_error, long_run.dof),
        num_steps=n,
        num_warmup_steps=num_warmup_steps,
        method=METHOD,
        std_error=value * relative_error,
        dof=long_run.dof,
    )
