from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trainmark.analyse.rates import last_rate, mean_of_rates, median_rate
from trainmark.analyse.steady import find_steady_start


def noisy(num: int, *, seed: int = 0, noise: float = 0.02) -> NDArray[np.float64]:
    return np.asarray(0.02 * (1 + noise * np.random.default_rng(seed).standard_normal(num)))


def test_one_compile_step() -> None:
    seconds = noisy(200)
    seconds[0] = 60.0
    assert find_steady_start(seconds) == 1


def test_two_spikes() -> None:
    seconds = noisy(200)
    seconds[0], seconds[3] = 30.0, 2.0
    assert find_steady_start(seconds) == 4


def test_an_exponential_ramp_is_mostly_left_out() -> None:
    seconds = noisy(600, noise=0.005) * (1 + 0.5 * np.exp(-np.arange(600) / 30))
    assert 60 <= find_steady_start(seconds) <= 300


def test_a_stationary_series_loses_almost_nothing() -> None:
    lost = [find_steady_start(noisy(200, seed=seed)) / 200 for seed in range(200)]
    assert np.mean(lost) < 0.1


def test_a_late_pause_does_not_move_the_start() -> None:
    seconds = noisy(300)
    seconds[250] = 5.0
    assert find_steady_start(seconds) < 60


def test_throttling_in_the_second_half_is_not_hidden() -> None:
    seconds = noisy(400)
    seconds[240:] *= 1.3
    assert find_steady_start(seconds) < 200


@pytest.mark.parametrize("seconds", [[0.1], [0.1, 0.1, 0.1], [0.1] * 100, [5.0, 0.1]])
def test_short_and_constant_series(seconds: list[float]) -> None:
    assert 0 <= find_steady_start(seconds) <= len(seconds) / 2


def test_alternating_steps_stay() -> None:
    assert find_steady_start([0.01, 0.03] * 100) <= 4


def test_rates_of_older_reports() -> None:
    seconds, samples = [1.0, 2.0, 4.0], [8.0, 8.0, 8.0]
    assert median_rate(seconds, samples) == 4.0
    assert mean_of_rates(seconds, samples) == pytest.approx(14 / 3)
    assert last_rate(seconds, samples) == 2.0
