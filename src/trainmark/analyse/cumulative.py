"""Logs whose records are means since the start, as Detectron2 and PSENet print them."""

from __future__ import annotations

import numpy as np

from trainmark.analyse.estimate import Estimate
from trainmark.store.rows import RunRow

CUMULATIVE = "cumulative"


def estimate_cumulative(row: RunRow) -> Estimate:
    """Each record is the mean since the start (or since the epoch began): only the last one of each stretch counts.

    There is no interval: the records are not separate measurements.
    """
    ends = _ends_of_stretches(row)
    weights = np.nan_to_num(row.steps[ends], nan=1.0) + 1.0 if len(row.steps) else np.ones(len(ends))
    value = float((weights * row.samples[ends]).sum() / (weights * row.seconds[ends]).sum())
    return Estimate(
        value=value,
        ci95=None,
        num_steps=len(row.seconds),
        num_warmup_steps=0,
        method=CUMULATIVE,
        std_error=None,
        dof=None,
    )


def _ends_of_stretches(row: RunRow) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Indices of the records after which the number of the iteration falls, and of the last one."""
    falls = np.flatnonzero(np.diff(row.steps) < 0) if len(row.steps) else np.empty(0, dtype=np.intp)
    return np.append(falls, len(row.seconds) - 1).astype(np.intp)
