"""The measured series: seconds and samples of every step, checked once at the door."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainmark.errors import InputError


def read_series(seconds: ArrayLike, samples: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as arrays of one length; `samples` may be one number for all steps."""
    durations = np.atleast_1d(np.asarray(seconds, dtype=np.float64))
    counts = np.asarray(samples, dtype=np.float64)
    if durations.ndim != 1 or (counts.ndim and counts.shape != durations.shape):
        raise InputError(
            f"{durations.shape} step durations do not match {counts.shape} sample counts",
            hint="give one sample count per step, or one for all",
        )
    for name, values in (("step durations", durations), ("sample counts", counts)):
        if values.size == 0 or not (np.isfinite(values).all() and (values > 0).all()):
            raise InputError(
                f"{name} must be finite and positive, and there must be at least one",
                hint="leave out records without a duration or a count before the analysis",
            )
    return durations, np.broadcast_to(counts, durations.shape)
