"""Repeats and ratios: unequal runs, runs without an interval, medians."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainmark.analyse.estimate import Estimate, Ratio, efficiency, speedup
from trainmark.analyse.repeats import pool

TRIALS = 1000


def run(value: float, error: float | None = None, dof: float = 20.0) -> Estimate:
    return Estimate(
        value=value,
        ci95=None if error is None else (value - 2 * error, value + 2 * error),
        num_steps=100,
        num_warmup_steps=2,
        method="ar-t" if error is not None else "none",
        std_error=error,
        dof=None if error is None else dof,
    )


@pytest.mark.parametrize("between", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("num_runs", [2, 3, 6])
def test_runs_of_unequal_precision_are_covered(num_runs: int, between: float) -> None:
    """Here inverse-variance weights with the Hartung-Knapp interval fall to 88%."""
    random = np.random.default_rng([num_runs, round(between)])
    errors = np.array([1.0, 3.0, 0.5, 2.0, 1.0, 0.3])[:num_runs]
    shape = (TRIALS, num_runs)
    values = 1000 + between * random.standard_normal(shape) + errors * random.standard_normal(shape)
    seen = errors * np.sqrt(random.chisquare(20, shape) / 20)
    pooled = [pool([run(*pair) for pair in zip(*pairs, strict=True)]) for pairs in zip(values, seen, strict=True)]
    covered = [one.ci95 is not None and one.ci95[0] <= 1000 <= one.ci95[1] for one in pooled]
    assert np.mean(covered) >= 0.93


def test_runs_that_agree_by_chance_are_no_better_known_than_their_steps_say() -> None:
    pooled = pool([run(100.0, 1.0), run(100.0, 1.0)])
    assert pooled.method == "runs-within"
    assert pooled.std_error == pytest.approx(math.sqrt(0.5))
    assert pooled.dof == pytest.approx(40.0)


def test_spread_between_runs_decides_when_it_is_larger() -> None:
    pooled = pool([run(100.0, 0.1), run(102.0, 0.1), run(104.0, 0.1)])
    assert (pooled.value, pooled.method, pooled.dof) == (102.0, "runs-t", 2.0)
    assert pooled.std_error == pytest.approx(2 / math.sqrt(3))
    assert pooled.ci95 == pytest.approx((102 * math.exp(-0.04871), 102 * math.exp(0.04871)), rel=1e-4)


def test_a_run_without_an_interval_counts_in_full() -> None:
    pooled = pool([run(100.0), run(102.0, 50.0), run(104.0, 50.0)])
    assert (pooled.value, pooled.method) == (102.0, "runs-t")
    assert (pooled.num_steps, pooled.num_warmup_steps) == (300, 6)
    assert pool([run(100.0)]).ci95 is None


def test_identical_constant_runs_have_no_width() -> None:
    pooled = pool([run(100.0, 0.0, math.inf)] * 3)
    assert pooled.ci95 == (100.0, 100.0)
    assert speedup(pooled, pooled) == Ratio(value=1.0, ci95=(1.0, 1.0))


def test_nothing_cannot_be_pooled() -> None:
    with pytest.raises(ValueError, match="no runs"):
        pool([])


def test_means_of_the_published_table() -> None:
    """Six runs for each number of GPUs, from a public report."""
    table = {
        1: (353.77, 350.54, 354.28, 352.50, 351.55, 350.77),
        2: (654.90, 625.95, 631.30, 638.81, 611.51, 639.43),
        4: (1352.04, 1353.20, 1361.19, 1362.62, 1356.96, 1358.67),
        8: (2607.74, 2632.94, 2620.69, 2617.84, 2628.77, 2619.20),
        16: (4885.12, 4888.30, 4897.39, 4913.18, 4887.00, 4871.62),
        32: (9243.73, 9333.09, 9329.65, 9337.39, 9295.01, 9332.23),
    }
    runs = {devices: [run(value) for value in values] for devices, values in table.items()}
    means = [speedup(pool(runs[devices]), pool(runs[1])) for devices in (2, 4, 8, 16, 32)]
    assert [round(ratio.value, 2) for ratio in means] == [1.80, 3.85, 7.44, 13.88, 26.44]
    assert all(ratio.ci95 is not None for ratio in means)


@pytest.mark.parametrize(("dof_case", "dof_base", "error_base"), [(5, 5, 1.0), (2, 30, 3.0), (3, 50, 0.2)])
def test_speed_ups_of_unequal_precision_are_covered(dof_case: float, dof_base: float, error_base: float) -> None:
    random = np.random.default_rng(9)
    case = 800 + 8 * random.standard_normal(TRIALS)
    base = 100 + error_base * random.standard_normal(TRIALS)
    error_case = 8 * np.sqrt(random.chisquare(dof_case, TRIALS) / dof_case)
    error = error_base * np.sqrt(random.chisquare(dof_base, TRIALS) / dof_base)
    ratios = [
        speedup(run(c, ec, dof_case), run(b, eb, dof_base))
        for c, ec, b, eb in zip(case, error_case, base, error, strict=True)
    ]
    covered = np.mean([ratio.ci95 is not None and ratio.ci95[0] <= 8 <= ratio.ci95[1] for ratio in ratios])
    assert 0.93 <= covered <= 0.98


def test_efficiency_is_the_speed_up_per_device_and_inverts_with_it() -> None:
    case, base = run(700.0, 7.0), run(100.0, 1.0)
    ratio, there, back = efficiency(case, base, 8), speedup(case, base), speedup(base, case)
    assert ratio.value == pytest.approx(0.875)
    assert there.ci95 is not None
    assert back.ci95 is not None
    assert ratio.ci95 == pytest.approx((there.ci95[0] / 8, there.ci95[1] / 8))
    assert back.ci95 == pytest.approx((1 / there.ci95[1], 1 / there.ci95[0]))
    assert efficiency(case, run(100.0), 8) == Ratio(value=0.875, ci95=None)


def test_runs_that_agree_to_the_last_digit_and_know_no_more_have_no_interval() -> None:
    assert pool([run(10.0), run(10.0)]).ci95 is None
    assert pool([run(10.0), run(10.1)]).ci95 is not None
