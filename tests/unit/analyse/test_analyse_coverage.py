"""Does the 95% interval cover the truth 95 times in 100? By simulation, with known truth.

Few trials, so that the tests are fast: with 150 of them, 95% is seen as 91 to 99%. benchmarks/coverage.py has more.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from trainmark.analyse.throughput import estimate_throughput

TRIALS = 150
MAX_REFUSED = 0.05
SAMPLES = 64.0
TRUTH = SAMPLES / 0.02


def correlated(random: np.random.Generator, phi: float, num: int, trials: int = TRIALS) -> NDArray[np.float64]:
    """Stationary first-order autoregressions with mean 0 and variance 1."""
    shocks = random.standard_normal((trials, num + 300))
    return np.asarray(lfilter([1.0], [1.0, -phi], shocks, axis=1)[:, 300:] * np.sqrt(1 - phi**2))


def coverage(
    seconds: NDArray[np.float64], samples: NDArray[np.float64], truth: float, *, max_refused: float = MAX_REFUSED
) -> float:
    """Of the intervals that were given."""
    intervals = [
        estimate_throughput(row, counts).ci95
        for row, counts in zip(seconds, np.broadcast_to(samples, seconds.shape), strict=True)
    ]
    given = [interval for interval in intervals if interval is not None]
    assert len(given) >= (1 - max_refused) * len(intervals)
    return float(np.mean([low <= truth <= high for low, high in given]))


@pytest.mark.parametrize(
    ("phi", "num"),
    [*((phi, num) for num in (100, 300) for phi in (-0.3, 0.0, 0.5, 0.9)), (0.0, 1000), (0.9, 1000)],
)
def test_normal_noise(phi: float, num: int) -> None:
    random = np.random.default_rng([1, num, round(10 * phi) + 10])
    seconds = 0.02 * (1 + 0.03 * correlated(random, phi, num))
    assert 0.91 <= coverage(seconds, np.array(SAMPLES), TRUTH) <= 0.99


def test_the_usual_formula_would_fail_here() -> None:
    """Shows that the tests above can fail: if independence is assumed, half of the intervals miss."""
    noise = correlated(np.random.default_rng(1), 0.8, 300)
    half_width = 1.96 * noise.std(axis=1, ddof=1) / np.sqrt(300)
    assert np.mean(np.abs(noise.mean(axis=1)) <= half_width) < 0.6


def test_strongly_skewed_noise() -> None:
    logs = 0.2 * correlated(np.random.default_rng(2), 0.5, 100)
    assert 0.91 <= coverage(0.02 * np.exp(logs - 0.02), np.array(SAMPLES), TRUTH) <= 0.99


def test_spikes_and_a_ramp_before_correlated_steps() -> None:
    seconds = 0.02 * (1 + 0.03 * correlated(np.random.default_rng(3), 0.8, 300))
    seconds[:, 5:] *= 1 + 0.3 * np.exp(-np.arange(295) / 5)
    seconds[:, 0] = 60.0
    seconds[:, 3] *= 15
    assert coverage(seconds, np.array(SAMPLES), TRUTH, max_refused=0.1) >= 0.9


def test_a_compile_step_before_mildly_correlated_steps() -> None:
    seconds = 0.02 * (1 + 0.03 * correlated(np.random.default_rng(8), 0.5, 150))
    seconds[:, 0] = 60.0
    assert 0.91 <= coverage(seconds, np.array(SAMPLES), TRUTH) <= 0.99


def test_steps_of_random_size_with_a_fixed_cost() -> None:
    """Small steps cost more per sample, so a mean of rates would be wrong, and size and rate are not independent."""
    random = np.random.default_rng(4)
    samples = random.integers(20, 65, (TRIALS, 200)).astype(np.float64)
    seconds = 0.005 + samples * 0.0003 * (1 + 0.03 * correlated(random, 0.5, 200))
    assert 0.91 <= coverage(seconds, samples, 42 / (0.005 + 42 * 0.0003)) <= 0.99


def test_slow_drift_under_jitter_is_seen_in_a_long_series() -> None:
    """Without batches it is 89%. Some of it looks like changes of level."""
    random = np.random.default_rng(5)
    noise = correlated(random, 0.98, 1000) + random.standard_normal((TRIALS, 1000))
    seconds = 0.02 * (1 + 0.01 * noise)
    assert 0.91 <= coverage(seconds, np.array(SAMPLES), TRUTH, max_refused=0.2) <= 0.99


@pytest.mark.parametrize(("cycle", "num"), [(8, 60), (16, 300)])
def test_every_so_many_th_step_slow_is_covered_wherever_the_series_ends(cycle: int, num: int) -> None:
    """Without room for an unfinished cycle it is 0% and 77%."""
    random = np.random.default_rng(6)
    slow = (np.arange(num) + random.integers(0, cycle, (200, 1))) % cycle == 0
    seconds = 0.02 * (1 + 0.01 * random.standard_normal((200, num)) + slow)
    assert coverage(seconds, np.array(SAMPLES), SAMPLES / (0.02 * (1 + 1 / cycle))) >= 0.93
