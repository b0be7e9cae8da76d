from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from trainmark.analyse.stopping import StoppingRule, decide, last_look, next_look


def steps(num: int, *, noise: float = 0.01, seed: int = 1) -> list[float]:
    return list(0.02 * (1 + noise * np.random.default_rng(seed).standard_normal(num)))


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
    decision = decide(steps(200), 64.0, target=0.01, min_steps=30, far_steps=0)
    assert decision.stop
    assert decision.estimate is not None
    assert (decision.estimate.relative_half_width or 1.0) <= 0.01
    assert "target ±1.00%" in decision.reason.english
    assert not decide(steps(200), 64.0, target=0.0005, far_steps=0).stop


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
    assert decide(wave, 64.0, target=0.05, min_dof=0.0, far_steps=0).stop


def test_the_limit_ends_it_and_says_that_the_target_was_missed() -> None:
    decision = decide(steps(100, noise=0.3), 64.0, max_steps=100)
    assert decision.stop
    assert decision.reason.english.startswith("stopped at the limit of 100 steps; target ±1.00% not reached: ±")
    assert decision.estimate is not None
    assert decision.estimate.num_steps == 100


@pytest.mark.parametrize(("phi", "noise"), [(0.0, 0.05), (0.8, 0.02)])
def test_intervals_at_the_stopping_time_cover(phi: float, noise: float) -> None:
    """Without the minimum of degrees of freedom it is 87% in the second case."""
    num_trials, num_steps = 40, 1749
    shocks = np.random.default_rng(3).standard_normal((num_trials, num_steps + 100))
    series = lfilter([1.0], [1.0, -phi], shocks, axis=1)[:, 100:] * np.sqrt(1 - phi**2)
    covered = refused = 0
    for row in 0.02 * (1 + noise * series):
        look, stop = 100, False
        while not stop:
            look = next_look(look)
            decision = decide(row[:look], 64.0, max_steps=num_steps, far_steps=0)
            stop = decision.stop
        assert decision.estimate is not None
        interval = decision.estimate.ci95
        refused += interval is None
        covered += interval is not None and interval[0] <= 3200 <= interval[1]
    assert covered / (num_trials - refused) >= 0.9
    assert refused <= 0.05 * num_trials


def test_it_looks_far_before_it_stops() -> None:
    """3,000 steps, or the time that is given for it."""
    series = steps(4000, seed=2)
    assert not decide(series[:2900], 64.0).stop
    assert "of 3000 steps" in decide(series[:2900], 64.0).reason.english
    assert decide(series[:3000], 64.0).stop
    assert decide(series[:1200], 64.0, far_seconds=20.0).stop


def test_it_does_not_stop_while_the_estimate_is_refused() -> None:
    series = np.array(steps(3100, seed=2))
    series[2000:] *= 1.1
    decision = decide(series, 64.0)
    assert not decision.stop
    assert decision.reason.code == "two-levels"


def test_every_tenth_step_slow_lets_it_stop() -> None:
    series = np.array(steps(3000, seed=2))
    series[::10] *= 3
    assert decide(series, 64.0).stop


def test_the_rule_stops_where_the_decision_does_and_knows_the_estimate_before() -> None:
    rule = StoppingRule(target=0.01, min_seconds=5.0)
    series = steps(3600, seed=2)
    for begin in range(0, 2988, 12):
        assert rule.add(series[begin : begin + 12], [64.0] * 12) is None
    assert rule.estimate is not None
    assert rule.estimate.num_steps == last_look(2988)
    reason = rule.add(series[2988:3000], [64.0] * 12)
    assert reason is not None
    assert reason.code == "precise-enough"
    early = StoppingRule(target=0.01, min_seconds=5.0, far_seconds=6.0)
    assert early.add(series[:350], [64.0] * 350) is not None
