"""Properties of the search for the steady start, and the cases that decide whether it can be trusted."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trainmark.analyse.steady import find_steady_start
from trainmark.analyse.throughput import estimate_throughput


def steps(num: int, *, seed: int = 0, noise: float = 0.01) -> NDArray[np.float64]:
    return np.asarray(0.02 * (1 + noise * np.random.default_rng(seed).standard_normal(num)))


def wild_series(seed: int) -> NDArray[np.float64]:
    """Any series: heavy tails, shifts, spikes, trends, of any length."""
    random = np.random.default_rng(seed)
    num = int(random.integers(1, 400))
    series = np.exp(random.choice([0.01, 0.3, 2.0]) * random.standard_normal(num))
    series *= np.where(np.arange(num) < random.integers(0, num + 1), random.choice([0.5, 1.0, 20.0]), 1.0)
    return np.asarray(series * (1 + random.choice([0.0, 1.0]) * np.linspace(1, 0, num)))


@pytest.mark.parametrize("seed", range(60))
def test_at_most_half_is_left_out_and_units_do_not_matter(seed: int) -> None:
    series = wild_series(seed)
    start = find_steady_start(series)
    assert 0 <= start <= len(series) // 2
    assert find_steady_start(series * 1024) == start


@pytest.mark.parametrize("num", [20, 100, 500])
def test_the_compile_step_alone_is_left_out(num: int) -> None:
    assert find_steady_start(np.concatenate(([60.0], steps(num)))) == 1
    assert find_steady_start(np.concatenate(([60.0], np.full(num, 0.02)))) == 1


def test_a_chain_of_spikes_is_followed_and_a_lone_one_later_is_not() -> None:
    series = steps(300)
    series[[0, 1, 4, 9]] *= 50
    assert find_steady_start(series) == 10
    series[[0, 1, 4]] /= 50
    assert find_steady_start(series) == 0


def test_three_steps() -> None:
    assert find_steady_start([60.0, 0.02, 0.02]) == 1
    assert find_steady_start([0.02, 0.021, 0.02]) == 0


def test_a_constant_series_and_an_alternating_one_lose_nothing() -> None:
    assert find_steady_start([0.02] * 50) == 0
    assert find_steady_start([0.01, 0.03] * 50) == 0


@pytest.mark.parametrize("place", [20, 40, 49, 90])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_lone_pause_moves_nothing(place: int, noise: float) -> None:
    series = steps(100, noise=noise)
    series[place] = 2.0
    assert find_steady_start(series) == 0


@pytest.mark.parametrize("settling", [5, 20, 50])
def test_what_is_left_of_a_ramp_is_less_than_the_noise(settling: int) -> None:
    ramp = 0.5 * np.exp(-np.arange(800) / settling)
    start = find_steady_start(steps(800) * (1 + ramp))
    assert ramp[start] < 0.01
    assert start < 8 * settling + 800 // 50  # the coarse look cuts whole batches


def test_a_ramp_longer_than_half_is_cut_at_half_and_the_rest_is_not_trusted() -> None:
    series = steps(200) * (1 + 0.5 * np.exp(-np.arange(200) / 50))
    assert find_steady_start(series) == 100
    estimate = estimate_throughput(series, 1.0)
    assert estimate.ci95 is None
    assert [doubt.code for doubt in estimate.doubts] == ["still-warming-up"]


def test_first_steps_that_are_too_fast_are_no_steady_state_either() -> None:
    """A host clock sees the first launches return at once, until the queue is full."""
    series = steps(200)
    series[:8] *= 0.1
    assert 8 <= find_steady_start(series) <= 20


@pytest.mark.parametrize("place", [0.2, 0.5, 0.52, 0.55, 0.6, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("factor", [0.85, 1.2])
def test_another_level_is_no_warm_up_and_both_are_named(place: float, factor: float) -> None:
    series = steps(200)
    series[round(200 * place) :] *= factor
    assert find_steady_start(series) == 0
    estimate = estimate_throughput(series, 1.0)
    assert estimate.ci95 is None
    (doubt,) = estimate.doubts
    assert doubt.code == "two-levels"
    assert [doubt.params["low"], doubt.params["high"]] == pytest.approx(sorted([50, 50 / factor]), rel=0.01)


def test_the_warm_up_before_a_late_change_is_still_found() -> None:
    series = steps(200)
    series[120:] *= 0.8
    series[:6] *= 1.3
    assert find_steady_start(series) == 6


@pytest.mark.parametrize("tail", ["normal", "lognormal", "stalls", "cycle"])
def test_a_stationary_series_loses_almost_nothing_whatever_its_noise(tail: str) -> None:
    random = np.random.default_rng(8)
    series = 0.02 * (1 + 0.02 * random.standard_normal((100, 100)))
    if tail == "lognormal":
        series = 0.02 * np.exp(0.5 * random.standard_normal((100, 100)))
    elif tail == "stalls":
        series = series * np.where(random.random((100, 100)) < 0.02, 5.0, 1.0)
    elif tail == "cycle":
        series = series * np.where(np.arange(100) % 8 == 0, 2.0, 1.0)
    assert np.mean([find_steady_start(row) for row in series]) < 3


def test_each_process_of_a_resumed_training_has_a_warm_up_of_its_own() -> None:
    """One folder has the records of all processes; the second compiles again, in the middle."""
    whole = np.concatenate(([60.0], steps(400)))
    torn = np.concatenate(([60.0], steps(200), [60.0, 1.0], steps(200, seed=1)))
    expected, found = estimate_throughput(whole, 128), estimate_throughput(torn, 128, restarts=[201])
    assert found.value == pytest.approx(expected.value, rel=0.002)
    assert found.num_warmup_steps == 3
    assert estimate_throughput(torn, 128).value < 0.2 * expected.value
    cut_short = np.concatenate(([60.0], steps(200), [60.0, 1.0]))
    assert estimate_throughput(cut_short, 128, restarts=[201]).value == pytest.approx(expected.value, rel=0.002)
