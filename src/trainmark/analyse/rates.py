"""Summaries of per-record rates, as older reports print them.

For comparison only: a mean of rates gives a slow step no more weight than a fast one, so with equal samples it is never
below samples over seconds. The throughput of a run is `estimate_throughput`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainmark.analyse.series import read_series


def median_rate(seconds: ArrayLike, samples: ArrayLike) -> float:
    """Median of the samples per second of each record."""
    return float(np.median(_rates(seconds, samples)))


def mean_of_rates(seconds: ArrayLike, samples: ArrayLike) -> float:
    """Arithmetic mean of the samples per second of each record."""
    return float(np.mean(_rates(seconds, samples)))


def last_rate(seconds: ArrayLike, samples: ArrayLike) -> float:
    """Samples per second of the last record."""
    return float(_rates(seconds, samples)[-1])


def _rates(seconds: ArrayLike, samples: ArrayLike) -> NDArray[np.float64]:
    durations, counts = read_series(seconds, samples)
    return counts / durations
