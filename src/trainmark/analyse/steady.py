"""Where the steady state starts.

Two things come before it. Spikes: compilation, cuDNN tuning, first allocation, 2 to 1000 times as long as a usual step,
at the very start and possibly again a few steps later. A ramp: clocks, caches and queues that take time to settle.

Spikes are found by their size compared with the second half of the series. The ramp is found by the marginal standard
error rule (White 1997: cut where the standard error of the mean of the rest is smallest) with five safeguards:

- values are clipped at ten robust standard deviations, so that one pause for garbage collection causes no cut;
- a cut counts only if the mean of what it removes differs from that of the second half by more than chance, with the
  autocorrelation of the steps taken into account, so that a stationary series keeps its steps;
- at most half of the steps is removed;
- what is removed must look like a warm-up: a few steps, far from the rest, or approaching it. A flat part at another
  level is not one; clocks switch like that, and it belongs to the run (`regimes.py`);
- the rule may point beyond the middle. Then the level changed in the second half. That belongs in the interval and is
  not a warm-up, unless the first half itself shows a transient that dies away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainmark.analyse.diagnosis import find_shape
from trainmark.analyse.longrun import long_run_variance
from trainmark.analyse.medians import level_and_noise, median

# A spike exceeds the usual step by all three: robust deviations, a share of the step, and the usual slow steps (data
# stalls, logging) of the second half.
_SPIKE_DEVIATIONS = 10.0
_SPIKE_SHARE = 0.5
_SPIKE_OVER_SLOW = 1.5

# A spike belongs to the start if it is among the first four steps, or follows the last such spike before twice as many
# steps, and four, have passed.
_SPIKE_REACH = 4

_CLIP_DEVIATIONS = 10.0

# In standard errors; more of them where few steps of the second half say what a standard error is.
_SIGNIFICANT = 4.0
_SIGNIFICANT_IF_SHORT = 20.0

# The rule looks at single steps and at this many batches: single steps locate a sharp edge, batches show the faint
# tail of a ramp that is hidden in the noise of single steps.
_NUM_BATCHES = 50

# A change is located only to within a few steps: this much of the first half is surely before the second half.
_SURELY_FIRST_HALF = 0.9

# No machine is steadier than this share of a step; without it, rounding would matter in a nearly constant series.
_NOISE_FLOOR = 1e-3

# What a cut removes must be a transient, else it is another level of speed, which belongs to the run: so few steps, so
# far from the rest, or a second half that is so much nearer to the rest than the first.
_FEW_STEPS = 4
_FEW_SHARE = 0.05
_FAR = 1.25
_APPROACH = 0.7

# With fewer steps, a ramp cannot be told from noise.
_MIN_RAMP_STEPS = 10


def find_steady_start(seconds: ArrayLike) -> int:
    """Index of the first step of the steady state; at most half of the steps come before it."""
    durations = np.asarray(seconds, dtype=np.float64)
    limit = len(durations) // 2
    if limit == 0:
        return 0
    start = _end_of_spikes(durations, limit)
    cut = _end_of_ramp(durations[start:], limit - start)
    return start + cut if _is_transient(durations[start:], cut) else start


def find_spikes_end(seconds: ArrayLike) -> int:
    """Index of the first step after the spikes, where a ramp may start."""
    durations = np.asarray(seconds, dtype=np.float64)
    limit = len(durations) // 2
    return _end_of_spikes(durations, limit) if limit else 0


def _level_and_noise(durations: NDArray[np.float64]) -> tuple[float, float]:
    level, noise = level_and_noise(durations)
    return level, max(noise, _NOISE_FLOOR * level)


def _end_of_spikes(durations: NDArray[np.float64], limit: int) -> int:
    reference = np.sort(durations[limit:])
    level, noise = _level_and_noise(reference)
    slow = float(reference[int(0.95 * (len(reference) - 1))])
    excess = max(_SPIKE_DEVIATIONS * noise, _SPIKE_SHARE * level, _SPIKE_OVER_SLOW * (slow - level))
    spikes = np.flatnonzero(durations[:limit] > level + excess)
    start = 0
    for spike in spikes:
        if spike >= 2 * start + _SPIKE_REACH:
            break
        start = int(spike) + 1
    return start


def _end_of_ramp(durations: NDArray[np.float64], limit: int) -> int:
    n = len(durations)
    if limit <= 0 or n < _MIN_RAMP_STEPS:
        return 0
    level, noise = _level_and_noise(durations[n - n // 2 :])
    clipped = np.clip(durations, level - _CLIP_DEVIATIONS * noise, level + _CLIP_DEVIATIONS * noise) - level
    cut = _best_cut(clipped, (_NOISE_FLOOR * level) ** 2)
    if cut <= _SURELY_FIRST_HALF * limit:
        return cut
    if _dies_away(durations):
        return min(cut, limit)
    # The level changed late: look for the warm-up in what came before the change.
    return _end_of_ramp(durations[:cut], min(limit, cut // 2))


def _best_cut(clipped: NDArray[np.float64], floor: float) -> int:
    """The cut, up to three quarters, that leaves the smallest standard error of the mean; 0 if none is significant."""
    significant = _significant_cuts(clipped, floor)
    coarse = max(1, len(clipped) // _NUM_BATCHES)
    return max(_cut_by_batches(clipped, size, significant, floor) for size in (1, coarse))


def _significant_cuts(clipped: NDArray[np.float64], floor: float) -> NDArray[np.bool_]:
    """For each cut, 0 to three quarters: whether what it removes differs from the second half by more than chance."""
    n = len(clipped)
    cuts = np.arange(1, 3 * n // 4 + 1)
    reference = clipped[n - n // 2 :]
    spread = float(reference.var()) + floor
    long_run = max(long_run_variance(reference).variance, spread)
    # Variance of a mean of so many steps: long-run for many of them, never more than that of a single one.
    chance = np.minimum(long_run / cuts, spread) + min(long_run / len(reference), spread)
    difference = np.cumsum(clipped[: len(cuts)]) / cuts - reference.mean()
    deviations = _SIGNIFICANT + _SIGNIFICANT_IF_SHORT / len(reference)
    return np.concatenate(([False], np.abs(difference) > deviations * np.sqrt(chance)))


def _cut_by_batches(clipped: NDArray[np.float64], size: int, allowed: NDArray[np.bool_], floor: float) -> int:
    num = len(clipped) // size
    batches = clipped[: num * size].reshape(num, size).mean(axis=1)
    cuts = np.arange((len(allowed) - 1) // size + 1)
    kept = num - cuts
    # Sums over what is left after each cut.
    total = np.cumsum(batches[::-1])[::-1][: len(cuts)]
    squares = np.cumsum(batches[::-1] ** 2)[::-1][: len(cuts)]
    # The floor is added throughout, else a clipped outlier between constant steps would weigh infinitely.
    error = (squares / kept - (total / kept) ** 2 + floor / size) / kept
    error[1:][~allowed[cuts[1:] * size]] = np.inf
    return int(np.argmin(error)) * size


def _dies_away(durations: NDArray[np.float64]) -> bool:
    """Whether the level moves more within the first half than from there to the second, and the same way."""
    n = len(durations)
    first, second, rest = (median(part) for part in np.split(durations, [n // 4, n // 2]))
    return abs(first - second) >= abs(second - rest) and (first - second) * (second - rest) >= 0


def _is_transient(durations: NDArray[np.float64], cut: int) -> bool:
    """Whether what is cut is a warm-up: few steps, far from the rest, or approaching it; not a level of its own."""
    if cut <= max(_FEW_STEPS, _FEW_SHARE * len(durations)):
        return True
    removed, rest = durations[:cut], durations[cut:]
    level, noise = _level_and_noise(rest)
    if max(median(removed) / level, level / median(removed)) > _FAR:
        return True
    early, late = (float(part.mean()) - float(rest.mean()) for part in np.split(removed, [cut // 2]))
    chance = _SIGNIFICANT * noise * float(np.sqrt(4 / cut))
    is_past = early * late < 0 and abs(late) > chance
    if is_past or abs(early) - abs(late) < chance or abs(late) > _APPROACH * abs(early):
        return False
    levels, _ = find_shape(durations / level)
    return levels is None or (levels.direction != 0 and len(levels.changes) > 1)
