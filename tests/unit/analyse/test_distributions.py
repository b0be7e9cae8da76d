"""Tails and quantiles against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from trainmark.analyse.distributions import digamma, f_above, inverse_trigamma, t_quantile, t_two_sided, trigamma

DOFS = [1, 1.3, 2, 3, 4.5, 8, 13, 60, 400, 1e5]


@pytest.mark.parametrize("dof", DOFS)
def test_students_t_is_that_of_scipy(dof: float) -> None:
    ts = [0.01, 0.5, 1, 2.3, 10, 100]
    np.testing.assert_allclose([t_two_sided(t, dof) for t in ts], 2 * stats.t.sf(ts, dof), rtol=1e-8, atol=1e-290)
    tails = [0.5, 0.1, 0.05, 0.01, 0.0006, 1e-6]
    np.testing.assert_allclose([t_quantile(p, dof) for p in tails], stats.t.isf(np.array(tails) / 2, dof), rtol=1e-8)


def test_no_difference_has_probability_one() -> None:
    assert t_two_sided(0.0, 3.0) == 1.0


@pytest.mark.parametrize("above", [1, 2, 3.5, 20])
def test_the_f_tail_is_that_of_scipy(above: float) -> None:
    for below in (1, 2, 7, 100):
        ratios = [0.01, 0.5, 1, 3, 50]
        ours = [f_above(ratio, above, below) for ratio in ratios]
        np.testing.assert_allclose(ours, stats.f.sf(ratios, above, below), rtol=1e-10)


def test_gamma_functions_are_those_of_scipy() -> None:
    xs = [0.05, 0.5, 1, 3, 50]
    np.testing.assert_allclose([digamma(x) for x in xs], special.digamma(xs), rtol=1e-8)
    np.testing.assert_allclose([trigamma(x) for x in xs], special.polygamma(1, xs), rtol=1e-8)
    np.testing.assert_allclose([inverse_trigamma(trigamma(x)) for x in xs], xs, rtol=1e-8)
