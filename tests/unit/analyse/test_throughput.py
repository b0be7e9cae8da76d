"""Does the 95% interval cover the truth 95 times in 100? By simulation, with known truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.repeats import pool
from trainmark.analyse.speedup import efficiency, speedup
from trainmark.analyse.stopping import decide, next_look
from trainmark.analyse.throughput import estimate_throughput

TRIALS = 1000


def ar1(random: np.random.Generator, phi: float, num: int, trials: int, *, noise: float) -> NDArray[np.float64]:
    """Step times around 20 ms: a stationary first-order autoregression, with a relative standard deviation `noise`."""
    shocks = random.standard_normal((trials, num + 200))
    series = lfilter([1.0], [1.0, -phi], shocks, axis=1)[:, 200:] * np.sqrt(1 - phi**2)
    return np.asarray(0.02 * (1 + noise * series))


def coverage(seconds: NDArray[np.float64], samples: NDArray[np.float64], truth: float) -> float:
    hits = 0
    for row in seconds:
        interval = estimate_throughput(row, samples).ci95
        assert interval is not None
        hits += interval[0] <= truth <= interval[1]
    return hits / len(seconds)


@pytest.mark.parametrize(
    ("phi", "num"),
    [(-0.3, 100), (0.0, 100), (0.0, 1000), (0.5, 100), (0.5, 1000), (0.8, 300), (0.8, 1000), (0.9, 1000)],
)
def test_coverage_of_autocorrelated_steps(phi: float, num: int) -> None:
    random = np.random.default_rng([num, round(10 * phi) + 10])
    found = coverage(ar1(random, phi, num, TRIALS, noise=0.03), np.full(num, 128.0), 128 / 0.02)
    assert 0.93 <= found <= 0.97


def test_coverage_of_skewed_steps() -> None:
    random = np.random.default_rng(1)
    logs = 0.05 * random.standard_normal((TRIALS, 300))
    seconds = 0.02 * np.exp(logs - 0.05**2 / 2)
    assert 0.93 <= coverage(seconds, np.full(300, 128.0), 128 / 0.02) <= 0.97


def test_coverage_through_a_warm_up() -> None:
    random = np.random.default_rng(2)
    seconds = ar1(random, 0.5, 300, TRIALS, noise=0.03)
    seconds[:, 0] = 40.0
    seconds[:, 1:4] *= 3
    assert 0.93 <= coverage(seconds, np.full(300, 128.0), 128 / 0.02) <= 0.97


def test_coverage_with_samples_that_vary() -> None:
    """Steps of different sizes whose time follows the size: a ratio of sums, not a mean of rates."""
    random = np.random.default_rng(3)
    samples = random.integers(50, 150, 400).astype(float)
    noise = 1 + 0.02 * random.standard_normal((TRIALS, 400))
    assert 0.93 <= coverage(samples * 1e-4 * noise, samples, 1e4) <= 0.97


def test_the_usual_formula_would_fail_here() -> None:
    """That the coverage tests can fail: independence assumed at phi = .8 covers about two thirds of the time."""
    series = ar1(np.random.default_rng(4), 0.8, 300, TRIALS, noise=0.03)
    error = series.std(axis=1, ddof=1) / np.sqrt(300)
    assert (np.abs(series.mean(axis=1) - 0.02) < 1.96 * error).mean() < 0.75


def test_throughput_is_samples_over_seconds() -> None:
    estimate = estimate_throughput([1.0, 3.0] * 20, [4.0, 4.0] * 20)
    assert estimate.value == pytest.approx(2.0)  # the mean of the two rates would be 2.67
    assert estimate.num_steps == 40


def test_a_constant_series_has_no_width() -> None:
    estimate = estimate_throughput([0.5] * 50, [32.0] * 50)
    assert estimate.value == pytest.approx(64.0)
    assert estimate.ci95 == pytest.approx((64.0, 64.0))


def test_too_few_steps_have_no_interval() -> None:
    for num in (1, 2, 5):
        estimate = estimate_throughput([0.5] * num, [32.0] * num)
        assert estimate.ci95 is None
        assert estimate.value == pytest.approx(64.0)
        assert estimate.relative_half_width is None


# -- repeats -----------------------------------------------------------------------------------------------------------


def run_estimate(value: float, error: float) -> Estimate:
    return Estimate(
        value=value, ci95=(value - 2 * error, value + 2 * error), num_steps=100, num_warmup_steps=1, method="t",
        std_error=error, dof=99.0,
    )  # fmt: skip


@pytest.mark.parametrize("runs", [2, 3, 6])
@pytest.mark.parametrize("between", [0.1, 1.0, 10.0])
def test_coverage_of_pooled_repeats(runs: int, between: float) -> None:
    """Between-run spread much smaller than, equal to and much larger than the error within a run."""
    random = np.random.default_rng([runs, round(10 * between)])
    hits = 0
    for _ in range(TRIALS):
        values = 1000 + between * random.standard_normal(runs) + random.standard_normal(runs)
        interval = pool([run_estimate(value, 1.0) for value in values.tolist()]).ci95
        assert interval is not None
        hits += interval[0] <= 1000 <= interval[1]
    assert hits / TRIALS >= 0.93


def test_pooling_adds_steps_and_leaves_one_run_alone() -> None:
    one = run_estimate(100.0, 1.0)
    assert pool([one]) is one
    both = pool([one, run_estimate(110.0, 1.0)])
    assert both.value == pytest.approx(105.0)
    assert both.num_steps == 200
    assert both.ci95 is not None
    assert both.ci95[0] < 95
    assert both.ci95[1] > 115


# -- speed-up ----------------------------------------------------------------------------------------------------------

DLPERF = {
    1: [353.77, 350.54, 354.28, 352.50, 351.55, 350.77], 2: [654.90, 625.95, 631.30, 638.81, 611.51, 639.43],
    4: [1352.04, 1353.20, 1361.19, 1362.62, 1356.96, 1358.67],
    8: [2607.74, 2632.94, 2620.69, 2617.84, 2628.77, 2619.20],
    16: [4885.12, 4888.30, 4897.39, 4913.18, 4887.00, 4871.62],
    32: [9243.73, 9333.09, 9329.65, 9337.39, 9295.01, 9332.23],
}  # fmt: skip


def test_the_published_table_gives_the_right_speed_ups() -> None:
    """A public report's six runs for each number of GPUs; the report itself divided some by a stale run."""
    pooled = {devices: pool([run_estimate(value, 0.1) for value in values]) for devices, values in DLPERF.items()}
    ratios = [speedup(pooled[devices], pooled[1]) for devices in (2, 4, 8, 16, 32)]
    assert [round(ratio.value, 2) for ratio in ratios] == [1.80, 3.85, 7.44, 13.88, 26.44]
    for ratio in ratios:
        assert ratio.ci95 is not None
        assert ratio.ci95[0] < ratio.value < ratio.ci95[1]
    assert efficiency(pooled[32], pooled[1], 32).value == pytest.approx(26.44 / 32, abs=1e-3)


def test_coverage_of_speed_ups() -> None:
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(TRIALS):
        base = pool([run_estimate(v, 1.0) for v in (100 + 2 * random.standard_normal(4)).tolist()])
        case = pool([run_estimate(v, 1.0) for v in (720 + 20 * random.standard_normal(4)).tolist()])
        interval = speedup(case, base).ci95
        assert interval is not None
        hits += interval[0] <= 7.2 <= interval[1]
    assert hits / TRIALS >= 0.93


# -- stopping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [0.0, 0.6])
def test_intervals_at_the_time_of_stopping_still_cover(phi: float) -> None:
    """Looking again and again and stopping at the first narrow interval must not spoil it."""
    random = np.random.default_rng([6, round(10 * phi)])
    series = ar1(random, phi, 4000, 400, noise=0.04)
    samples = np.full(4000, 128.0)
    hits = stopped = 0
    for row in series:
        look = 0
        while look < 4000:
            look = next_look(look)
            decision = decide(row[:look], samples[:look], target=0.01)
            if decision.stop:
                assert decision.estimate is not None
                assert decision.estimate.ci95 is not None
                hits += decision.estimate.ci95[0] <= 6400 <= decision.estimate.ci95[1]
                stopped += 1
                break
    assert stopped == 400
    assert hits / stopped >= 0.90  # simulated: about 94% for independent steps, 91% at a correlation of .6


def test_looks_are_geometric_and_a_noisy_series_goes_on() -> None:
    looks = [0]
    while looks[-1] < 2000:
        looks.append(next_look(looks[-1]))
    assert len(looks) < 25
    noisy = ar1(np.random.default_rng(7), 0.0, 100, 1, noise=0.3)[0]
    assert not decide(noisy, np.full(100, 128.0), target=0.01).stop
    assert not decide([0.02] * 5, [128.0] * 5, target=0.01).stop
