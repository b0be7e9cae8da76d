"""Throughput of one run from its steps, with an interval that allows for steps that depend on each other.

Method `ar-t`: the logarithm of samples over seconds is linearised, its long-run variance is read from an autoregression
(`longrun.py`) and Student's t with the degrees of freedom of that fit makes the interval. Chosen by simulation against
plain t (49% at a correlation of 0.8 between steps), and the same fit with order 0 allowed (78% at 0.5 and n = 10),
without the correction of bias (91% at 0.9 and n = 50), with BIC (87% at n = 1000 for drift under jitter, here 94%).

Simulated coverage of the 95% interval in percent, 4000 trials, through the search for the steady start:

                                         correlation of neighbouring steps
                                    n    -0.3      0    0.5    0.8    0.9
    noise 3%, normal               10    96.1   95.9   95.2   90.5   84.1
                                   20    94.9   94.8   94.9   92.9   88.8
                                   50    94.1   93.5   94.6   94.7   93.9
                                  100    94.0   94.5   94.9   95.6   95.7
                                  300    94.2   94.2   94.9   95.7   95.5
                                 1000    94.8   94.6   94.6   94.2   95.0
    noise 20%, lognormal          100    94.4   94.5   94.7   95.0   94.9
                                  300    94.4   94.2   95.1   95.4   95.2
                                 1000    94.9   94.9   94.4   94.1   94.4
    compile spikes and a ramp     100    93.8   93.6   94.2   92.8   89.1
                                  300    94.4   93.6   93.9   94.4   95.0
                                 1000    93.6   93.1   93.6   94.0   94.1
    samples that vary, 20 to 64   100    94.4   94.4   93.9   92.3   88.2
                                  300    95.2   94.9   94.0   93.7   91.7
                                 1000    93.9   94.4   94.4   94.5   94.1

It holds from n = 50 on at 0.9 (300 after a warm-up). What is not noise is found first (`diagnosis.py`) and widens the
interval or leaves none (`interval.py`): levels, drift, stalls, periods, rounding. docs/concepts/numbers.md has the
coverage with these, and what cannot be seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainmark.analyse.diagnosis import diagnose
from trainmark.analyse.digits import rounding_error
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.interval import Refusal, find_width
from trainmark.analyse.medians import quantiles
from trainmark.analyse.periods import find_period
from trainmark.analyse.steady import find_spikes_end, find_steady_start
from trainmark.errors import InputError
from trainmark.messages.doubts import within_one_run
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow

Floats = NDArray[np.float64]

METHOD = "ar-t"
NO_METHOD = "none"
CUMULATIVE = "cumulative"

MIN_STEPS = 8
"""Fewer steady steps get no interval: it would cover independent steps, but not even mildly correlated ones."""


def read_series(seconds: ArrayLike, samples: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check both and return them as arrays of one length; `samples` may be one number for all steps."""
    durations = np.atleast_1d(np.asarray(seconds, dtype=np.float64))
    counts = np.asarray(samples, dtype=np.float64)
    if durations.ndim != 1 or (counts.ndim and counts.shape != durations.shape):
        raise InputError(
            f"{durations.shape} step durations do not match {counts.shape} sample counts",
            hint="pass one sample count per step, or one for all steps",
        )
    for name, values in (("step durations", durations), ("sample counts", counts)):
        if values.size == 0 or not (np.isfinite(values).all() and (values > 0).all()):
            raise InputError(
                f"{name} must be finite numbers > 0, at least one",
                hint="remove records without a duration or a count before the analysis",
            )
    return durations, np.broadcast_to(counts, durations.shape)


def estimate_throughput(
    seconds: ArrayLike,
    samples: ArrayLike,
    *,
    restarts: Sequence[int] = (),
    is_printed: bool = True,
    known_rounding: float | None = None,
) -> Estimate:
    """Samples per second of the steady state of a run with these step durations.

    `restarts`: indices of the first steps of processes that resumed the run; each has a warm-up of its own.
    `is_printed`: durations may have been rounded one by one. Differences of time stamps are not, their sums are exact.
    `known_rounding`: by how much the printed digits of a log may have moved the mean, relative to it. None: find out.
    """
    durations, counts = read_series(seconds, samples)
    is_steady = find_steady(durations, restarts)
    ramp = durations[find_spikes_end(durations) :] if not restarts else None
    steady = durations[is_steady], counts[is_steady]
    return _estimate_steady(
        *steady, num_steps=len(durations), ramp=ramp, is_printed=is_printed, known_rounding=known_rounding
    )


def find_steady(durations: Floats, restarts: Sequence[int]) -> NDArray[np.bool_]:
    """For each step whether it is after the warm-up of its process."""
    is_steady = np.zeros(len(durations), dtype=np.bool_)
    for begin, end in itertools.pairwise([0, *restarts, len(durations)]):
        # So few steps do not show where a warm-up ends.
        if begin == 0 or end - begin >= 2 * MIN_STEPS:
            is_steady[begin + find_steady_start(durations[begin:end]) : end] = True
    return is_steady


def _estimate_steady(
    durations: Floats,
    counts: Floats,
    *,
    num_steps: int,
    ramp: Floats | None,
    is_printed: bool,
    known_rounding: float | None,
) -> Estimate:
    """`ramp`: all steps after the first spikes, of which the steady ones are the last."""
    if len(durations) < MIN_STEPS:
        return _without_interval(durations, counts, num_steps=num_steps, doubts=())
    # To first order, the logarithm of a ratio of sums changes by the mean of these (less 1).
    series = 1 + durations / durations.mean() - counts / counts.mean()
    period = find_period(series)
    if period is not None:
        cut = period.cut(len(series))
        durations, counts = durations[cut:], counts[cut:]
        series = 1 + durations / durations.mean() - counts / counts.mean()
        period = period.after(cut)
    found = diagnose(series, period, ramp=ramp)
    value = float(counts.sum() / durations.sum())
    rounding = known_rounding
    if rounding is None:
        rounding = rounding_error(durations, counts / durations) if is_printed else 0.0
    width = find_width(found, rounding=rounding, value=value)
    if isinstance(width, Refusal):
        return _without_interval(durations, counts, num_steps=num_steps, doubts=width.doubts)
    return Estimate(
        value=value,
        ci95=width.around(value),
        num_steps=len(durations),
        num_warmup_steps=num_steps - len(durations),
        method=METHOD,
        std_error=value * width.std_error,
        dof=width.dof,
        spread=find_spread(counts / durations),
        doubts=(*width.doubts, within_one_run()),
    )


def _without_interval(durations: Floats, counts: Floats, *, num_steps: int, doubts: tuple[Message, ...]) -> Estimate:
    return Estimate(
        value=float(counts.sum() / durations.sum()),
        ci95=None,
        num_steps=len(durations),
        num_warmup_steps=num_steps - len(durations),
        method=NO_METHOD,
        std_error=None,
        dof=None,
        spread=find_spread(counts / durations),
        doubts=doubts,
    )


def find_spread(rates: NDArray[np.float64]) -> tuple[float, float]:
    """The range of the middle 90% of the rates."""
    low, high = quantiles(rates, (0.05, 0.95))
    return low, high


def estimate_cumulative(row: RunRow) -> Estimate:
    """Throughput of a log whose records are means since the start, or since the epoch began, as in Detectron2.

    Only the last record of each stretch counts. There is no interval: the records are not separate measurements.
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


def _ends_of_stretches(row: RunRow) -> NDArray[np.intp]:
    """Indices of the records after which the iteration number decreases, and of the last one."""
    falls = np.flatnonzero(np.diff(row.steps) < 0) if len(row.steps) else np.empty(0, dtype=np.intp)
    return np.append(falls, len(row.seconds) - 1).astype(np.intp)
