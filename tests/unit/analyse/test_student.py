from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from trainmark.analyse.estimate import quantile_975


def test_the_quantile_is_that_of_scipy() -> None:
    dofs = [*np.geomspace(0.1, 1e9, 400).tolist(), *range(1, 60), 2.999999, 3.000001, 399.9, 400.1]
    ours = [quantile_975(dof) for dof in dofs]
    np.testing.assert_allclose(ours, stdtrit(dofs, 0.975), rtol=3e-12)


def test_the_ends() -> None:
    assert quantile_975(math.inf) == pytest.approx(1.959963984540054, rel=1e-15)
    assert math.isfinite(quantile_975(0.001))
