from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from trainmark.analyse.stopping import decide, last_look, next_look


def steps(num: int, *, noise: float = 0.01) -> list[float]:
    return list(0.02 * (1 + noise * np.random.default_rng(1).standard_normal(num)))


def test_looks_form_one_grid() -> None:
    looks = []
    look = 0
    while look < 5000:
        look = next_look(look, min_steps=20)
        looks.append(look)
    assert looks[:4] == [20, 30, 45, 68]
    for num_steps in (20, 29, 30, 44, 100):
        assert last_look(num_steps, min_steps=20) == max(look for look in looks if look <= num_steps)
    assert last_look(19, min_steps=20) == 0


def test_asking_between_two_looks_changes_nothing() -> None:
    series = steps(600, noise=0.05)
    at_look = decide(series[: next_look(300)], 64.0)
    for extra in (1, 50):
        assert decide(series[: next_look(300) + extra], 64.0) == at_look


def test_it_stops_when_the_interval_is_within_the_target() -> None:
    decision = decide(steps(200), 64.0, target=0.01, min_steps=30)
    assert decision.stop
    assert decision.estimate is not None
    assert (decision.estimate.relative_half_width or 1.0) <= 0.01
    assert "target ±1.00%" in decision.reason.english
    assert not decide(steps(200), 64.0, target=0.0005).stop


def test_it_waits_for_the_first_look_and_for_steady_steps() -> None:
    early = decide(steps(29), 64.0, min_steps=30)
    assert (early.stop, early.estimate) == (False, None)
    assert "29 of the first 30" in early.reason.english
    warming = decide([5.0, *steps(29)], 64.0, min_steps=30)
    assert not warming.stop
    assert "29 steps since the warm-up" in warming.reason.english


def test_a_narrow_interval_with_little_behind_it_is_not_trusted() -> None:
    """A slow wave: 100 steps, but only a few independent ones."""
    wave = 0.02 * (1 + 0.001 * np.cumsum(np.random.default_rng(2).standard_normal(102)) / 5)
    decision = decide(wave, 64.0, target=0.05)
    assert not decision.stop
    assert "degrees of freedom" in decision.reason.english
    assert decide(wave, 64.0, target=0.05, min_dof=0.0).stop


def test_the_limit_ends_it_and_says_that_the_target_was_missed() -> None:
    decision = decide(steps(100, noise=0.3), 64.0, max_steps=100)
    assert decision.stop
    assert decision.reason.english.startswith("stopped at the limit of 100 steps; target ±1.00% not reached: ±")
    assert decision.estimate is not None
    assert decision.estimate.num_steps == 100


@pytest.mark.parametrize(("phi", "noise"), [(0.0, 0.05), (0.8, 0.02)])
def test_intervals_at_the_stopping_time_cover(phi: float, noise: float) -> None:
    """Without the minimum of degrees of freedom it is 87% in the second case."""
    num_trials, num_steps = 300, 1749
    shocks = np.random.default_rng(3).standard_normal((num_trials, num_steps + 100))
    series = lfilter([1.0], [1.0, -phi], shocks, axis=1)[:, 100:] * np.sqrt(1 - phi**2)
    covered = 0
    for row in 0.02 * (1 + noise * series):
        look, stop = 0, False
        while not stop:
            look = next_look(look)
            decision = decide(row[:look], 64.0, max_steps=num_steps)
            stop = decision.stop
        assert decision.estimate is not None
        assert decision.estimate.ci95 is not None
        covered += decision.estimate.ci95[0] <= 3200 <= decision.estimate.ci95[1]
    assert covered / num_trials >= 0.92
