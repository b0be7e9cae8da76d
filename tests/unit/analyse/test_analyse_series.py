"""What the analysis accepts, the interval of a single run in detail, and the long-run variance on its own."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.signal import lfilter

from making import make_run
from trainmark.analyse import whitening
from trainmark.analyse.analysis import Analysis, analyse_steps
from trainmark.analyse.estimate import log_interval
from trainmark.analyse.longrun import long_run_variance
from trainmark.analyse.medians import median, quantiles
from trainmark.analyse.throughput import MIN_STEPS, estimate_throughput
from trainmark.errors import InputError
from trainmark.store.folder import read_run


@pytest.mark.parametrize(
    ("seconds", "samples"),
    [
        ([], []),
        ([0.1, 0.0], 1.0),
        ([0.1, -0.1], 1.0),
        ([0.1, math.nan], 1.0),
        ([0.1, 0.1], 0.0),
        ([0.1] * 3, [1.0] * 2),
    ],
)
def test_what_is_no_series_is_refused(seconds: ArrayLike, samples: ArrayLike) -> None:
    with pytest.raises(InputError) as caught:
        estimate_throughput(seconds, samples)
    assert caught.value.hint


def test_one_sample_count_serves_all_steps() -> None:
    series = [0.02, 0.021, 0.019] * 10
    assert estimate_throughput(series, 64) == estimate_throughput(series, [64] * 30)


def test_the_least_number_of_steps_with_an_interval() -> None:
    random = np.random.default_rng(1)
    for num in (MIN_STEPS - 1, MIN_STEPS):
        estimate = estimate_throughput(0.02 * (1 + 0.01 * random.standard_normal(num)), 64.0)
        assert (estimate.ci95 is None) == (num < MIN_STEPS)
        assert estimate.method == ("none" if num < MIN_STEPS else "ar-t")


@pytest.mark.parametrize("step", [0.1, 1 / 3, 0.02])
@pytest.mark.parametrize("num", [8, 100, 1001])
def test_rounding_is_no_variation(step: float, num: int) -> None:
    estimate = estimate_throughput([step] * num, 3.0, is_printed=False)
    assert estimate.ci95 == (estimate.value, estimate.value)
    assert (estimate.std_error, estimate.dof) == (0.0, math.inf)


def test_steps_whose_time_follows_their_size_exactly_have_no_width() -> None:
    samples = np.random.default_rng(2).integers(1, 100, 50).astype(np.float64)
    assert estimate_throughput(samples / 7, samples).relative_half_width == pytest.approx(0.0, abs=1e-9)


def test_perfect_alternation_is_known_to_half_a_cycle() -> None:
    for num in (100, 1000):
        estimate = estimate_throughput([0.01, 0.03] * (num // 2), 1.0)
        assert estimate.value == pytest.approx(50.0)
        assert 0 < (estimate.relative_half_width or 0.0) < 2 / num


def analyse(root: Path, seconds: list[float], samples: list[float]) -> Analysis:
    pairs = enumerate(zip(seconds, samples, strict=True), start=1)
    steps = [{"kind": "step", "step": n, "seconds": s, "samples": k, "time_s": 0.0} for n, (s, k) in pairs]
    row = read_run(make_run(root, "r", seconds=[], extra=steps))
    assert row is not None
    return analyse_steps(row)


def test_rates_of_older_reports(tmp_path: Path) -> None:
    found = analyse(tmp_path, [1.0, 2.0, 4.0, 5.0], [8.0, 8.0, 8.0, 5.0])
    assert (found.median, found.mean_of_rates, found.last) == (3.0, 3.75, 1.0)


def test_a_mean_of_rates_is_higher_than_samples_over_seconds(tmp_path: Path) -> None:
    series = [0.01, 0.03] * 50
    assert analyse(tmp_path, series, [1.0] * 100).mean_of_rates == pytest.approx(200 / 3)
    assert estimate_throughput(series, 1.0).value == pytest.approx(50.0)


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("num", [400, 20_000])
def test_the_long_run_variance_of_an_autoregression(phi: float, num: int) -> None:
    """The true value is 1 / (1 - phi)^2; the median over trials must meet it at any number of steps per batch."""
    shocks = np.random.default_rng(3).standard_normal((50, num + 200))
    series = lfilter([1.0], [1.0, -phi], shocks, axis=1)[:, 200:]
    found = np.median([long_run_variance(row).variance for row in series])
    assert found == pytest.approx(1 / (1 - phi) ** 2, rel=0.25)


def test_correlated_values_have_fewer_degrees_of_freedom() -> None:
    random = np.random.default_rng(4)
    white = random.standard_normal(90)
    assert long_run_variance(white).dof > 3 * long_run_variance(np.cumsum(white)).dof


def test_a_log_interval_is_finite_and_meets_the_plain_one() -> None:
    low, high = log_interval(100.0, 0.01, 1e6)
    assert (low, high) == pytest.approx((100 - 1.96, 100 + 1.96), abs=0.03)
    assert all(math.isfinite(end) for end in log_interval(100.0, 10.0, 2.0))


def test_quantiles_are_those_of_numpy_to_the_last_bit() -> None:
    random = np.random.default_rng(5)
    for num in (1, 2, 3, 20, 21, 299, 300):
        for values in (random.lognormal(size=num), random.integers(1, 5, num) / 10):
            assert quantiles(values, (0.05, 0.95)) == np.quantile(values, (0.05, 0.95)).tolist()
            assert median(values) == np.median(values)


def test_one_unknown_is_solved_as_several_are() -> None:
    """`fit` leaves LAPACK out there, which takes ten times as long."""
    random = np.random.default_rng(6)
    for gram, target in zip(random.uniform(1, 500, 200), random.normal(size=200), strict=True):
        one, other = np.array([[gram]]), np.array([target])
        assert whitening._solve(one, other) == pytest.approx(np.linalg.lstsq(one, other, rcond=1e-12)[0], rel=1e-15)
