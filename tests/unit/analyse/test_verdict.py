"""Verdicts on run values: what each needs, and what none may say."""

from __future__ import annotations

import random

import pytest

from trainmark.analyse.verdict import Judgement, Sides, judge, judge_cells

QUIET = (100.0, 100.1, 99.95)
"""Three runs of a machine with a spread of 0.08%."""


def scaled(values: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(value * factor for value in values)


# -- one cell ----------------------------------------------------------------------------------------------------------


def test_a_clear_difference_has_a_direction() -> None:
    slower, faster = judge(QUIET, scaled(QUIET, 0.97)), judge(QUIET, scaled(QUIET, 1.03))
    assert (slower.verdict, faster.verdict) == ("slower", "faster")
    assert slower.ratio is not None
    assert slower.ratio.value == pytest.approx(0.97)
    assert slower.ratio.ci95 is not None
    assert slower.ratio.ci95[0] < 0.97 < slower.ratio.ci95[1] < 1
    assert str(slower.why).startswith("-3.0%, between -3.")
    assert (slower.runs, slower.more_runs) == ((3, 3), None)


def test_swapping_the_sides_mirrors_everything() -> None:
    one, other = judge((100, 101, 99), (97, 96)), judge((97, 96), (100, 101, 99))
    assert one.ratio is not None
    assert other.ratio is not None
    assert one.ratio.ci95 is not None
    assert other.ratio.ci95 is not None
    assert one.ratio.value == pytest.approx(1 / other.ratio.value)
    assert one.ratio.ci95[0] == pytest.approx(1 / other.ratio.ci95[1])


def test_same_is_shown_not_assumed() -> None:
    assert judge(QUIET, QUIET[::-1]).verdict == "same"
    noisy = judge((100, 108, 93), (101, 92, 107))
    assert noisy.verdict == "inconclusive"  # nearly equal means, but a difference of 2% could not have been seen


def test_a_small_but_certain_difference_is_same_within_the_tolerance() -> None:
    """0.5% is many standard errors here; whoever cares passes a tolerance."""
    assert judge(QUIET * 3, scaled(QUIET * 3, 0.995)).verdict == "same"
    assert judge(QUIET * 3, scaled(QUIET * 3, 0.995), tolerance=0.002).verdict == "slower"


@pytest.mark.parametrize("a", [(100.0,), (100.0, 100.0)])
def test_one_run_each_never_gets_a_verdict_without_history(a: tuple[float, ...]) -> None:
    judged = judge(a[:1], (50.0,))
    assert judged.verdict == "inconclusive"
    assert judged.ratio is not None
    assert (judged.ratio.value, judged.ratio.ci95, judged.more_runs) == (pytest.approx(0.5), None, 2)
    assert "one run on each side" in str(judged.why)


def test_the_history_of_the_cell_gives_one_run_each_a_verdict() -> None:
    history = [(90.0, 90.2, 89.9), (95.0, 95.1, 94.9, 95.2)]
    assert judge((100.0,), (97.0,), history=history).verdict == "slower"
    assert judge((100.0,), (100.1,), history=history).verdict == "same"


def test_other_cells_never_replace_the_runs_of_a_cell() -> None:
    cells = [Sides(a=QUIET, b=scaled(QUIET, 0.9)) for _ in range(20)]
    assert judge_cells([*cells, Sides(a=(100.0,), b=(90.0,))])[-1].verdict == "inconclusive"


def test_a_noisier_day_than_the_history_counts_its_own_noise() -> None:
    history = [QUIET] * 10
    assert judge((100, 104, 98), (97, 99.5, 94.5), history=history).verdict == "inconclusive"


def test_a_side_without_runs_is_inconclusive() -> None:
    judged = judge((), QUIET)
    assert (judged.verdict, judged.ratio, judged.runs) == ("inconclusive", None, (0, 3))
    assert "no usable run of A" in str(judged.why)


def test_equal_values_are_not_infinitely_exact() -> None:
    """Rates printed with three digits repeat; an interval of width 0 would call 1.001 a difference."""
    judged = judge((100, 100, 100), (100.1, 100.1, 100.1), tolerance=0.0005)
    assert judged.verdict == "inconclusive"
    assert judged.ratio is not None
    assert judged.ratio.ci95 is not None
    assert judged.ratio.ci95[0] < 1 < judged.ratio.ci95[1]


def test_unequal_spreads_are_not_averaged() -> None:
    """Ten exact runs say nothing about two wild ones."""
    exact = tuple(100 + 0.05 * (place % 3) for place in range(10))
    assert judge(exact, (94.0, 99.0)).verdict == "inconclusive"


# -- how many more runs ------------------------------------------------------------------------------------------------


def test_the_number_of_runs_that_would_decide_does_decide() -> None:
    a, b = (100.0, 102.0, 98.0), (96.0, 98.2, 94.1)
    judged = judge(a, b)
    assert judged.verdict == "inconclusive"
    assert judged.more_runs is not None
    assert f"about {judged.more_runs} more run" in str(judged.why)
    times = 1 + -(-judged.more_runs // 3)
    assert judge(a * times, b * times).verdict == "slower"


def test_hopeless_noise_says_so() -> None:
    judged = judge((100, 150, 60), (100, 61, 149))
    assert judged.more_runs is None
    assert "reduce the noise" in str(judged.why)


# -- a run far from all others -----------------------------------------------------------------------------------------


def test_a_far_run_is_left_out_and_named_but_prevents_same() -> None:
    judged = judge(QUIET, (100.0, 118.0, 100.1))
    assert (judged.verdict, judged.far_a, judged.far_b, judged.runs) == ("inconclusive", None, 1, (3, 2))
    assert "one run of B is +17.9% from all the others" in str(judged.why)
    slower = judge((100.0, 70.0, 100.1), scaled(QUIET, 0.97))
    assert (slower.verdict, slower.far_a, slower.runs) == ("slower", 1, (2, 3))


def test_two_levels_are_not_a_far_run() -> None:
    """The low run of B agrees with A: which level is the usual one cannot be told."""
    judged = judge((100.0, 100.1), (105.0, 105.1, 100.0))
    assert (judged.verdict, judged.far_b) == ("inconclusive", None)


def test_of_two_runs_none_is_the_odd_one() -> None:
    judged = judge((100.0, 118.0), QUIET)
    assert (judged.verdict, judged.far_a) == ("inconclusive", None)


# -- many cells --------------------------------------------------------------------------------------------------------


def noise(rng: random.Random, spread: float, num: int = 3) -> tuple[float, ...]:
    return tuple(100 * (1 + rng.gauss(0, spread)) for _ in range(num))


def verdicts(judged: tuple[Judgement, ...]) -> list[str]:
    return [item.verdict for item in judged]


def test_many_equal_cells_give_hardly_any_false_verdict() -> None:
    """At a spread of 2%, one by one 5% of 400 would differ."""
    rng = random.Random(1)
    cells = [Sides(a=noise(rng, 0.02), b=noise(rng, 0.02)) for _ in range(400)]
    alone = [judge(sides.a, sides.b).verdict for sides in cells]
    together = verdicts(judge_cells(cells))
    assert 5 <= sum(verdict in ("faster", "slower") for verdict in alone) <= 30
    assert sum(verdict in ("faster", "slower") for verdict in together) <= 2


def test_a_difference_that_chance_explains_says_so() -> None:
    rng = random.Random(1)
    cells = [Sides(a=noise(rng, 0.02), b=noise(rng, 0.02)) for _ in range(400)]
    codes = [item.why.code for item in judge_cells(cells)]
    assert "chance-among-many" in codes


def test_true_differences_among_many_cells_are_found_with_few_false_ones() -> None:
    rng = random.Random(2)
    cells = [
        Sides(a=noise(rng, 0.004), b=scaled(noise(rng, 0.004), 0.97 if place < 100 else 1.0)) for place in range(200)
    ]
    found = verdicts(judge_cells(cells))
    assert sum(verdict == "slower" for verdict in found[:100]) >= 95
    assert sum(verdict in ("faster", "slower") for verdict in found[100:]) <= 5


def test_one_noisy_cell_among_quiet_ones_keeps_its_own_noise() -> None:
    """Shared degrees of freedom may not make its interval as narrow as theirs."""
    rng = random.Random(3)
    wrong = 0
    for _ in range(200):
        quiet = [Sides(a=noise(rng, 0.001), b=noise(rng, 0.001)) for _ in range(20)]
        loud = Sides(a=noise(rng, 0.03), b=noise(rng, 0.03))
        wrong += judge_cells([*quiet, loud])[-1].verdict in ("faster", "slower", "same")
    assert wrong <= 10
