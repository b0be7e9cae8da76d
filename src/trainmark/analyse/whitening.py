"""Is a shape (a step, a ramp) in a series by more than chance, when neighbouring values are correlated?

The noise around the shape is modelled as an autoregression; its filter turns series and shape into ones with
independent errors, where least squares says how significant the shape is and how well the whole fits. Without it every
slow wave of a correlated series would be taken for a change of level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.longrun import burg

Floats = NDArray[np.float64]

_MAX_ORDER = 8
_PREDICTED = 1e-6


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Least squares of a series on shapes, with autoregressive noise."""

    criterion: float
    """AICc: smaller is better. Comparable between fits to the same series."""
    solution: Floats
    """The constant and the coefficients of the shapes."""
    gram: Floats
    variance: float
    """Of an error; with `gram`, of the solution."""

    @property
    def coefficients(self) -> Floats:
        return self.solution[1:]

    @property
    def constant(self) -> float:
        return float(self.solution[0])

    @property
    def deviations(self) -> Floats:
        """Of the coefficient of each shape, in standard errors."""
        return (self.solution / self._errors)[1:]

    @property
    def constant_error(self) -> float:
        return float(self._errors[0])

    @cached_property
    def _errors(self) -> Floats:
        """Not every fit is asked for them."""
        return np.asarray(np.sqrt(np.maximum(self.variance * np.diag(np.linalg.pinv(self.gram)), 1e-300)))


def fit(series: Floats, shapes: Floats, *, max_order: int = _MAX_ORDER) -> Fit:
    """`shapes` has one row per shape, possibly none; a constant is always part of the fit."""
    n = len(series)
    design = np.vstack((np.ones(n), shapes)) if len(shapes) else np.ones((1, n))
    plain = _solve(design @ design.T, design @ series)
    residuals = series - plain @ design
    polynomial = _autoregress(residuals, min(max_order, n // 8), len(design))
    order = len(polynomial) - 1
    filtered = np.array([_filter(polynomial, row) for row in design])
    target = _filter(polynomial, series)
    gram = filtered @ filtered.T
    solution = _solve(gram, filtered @ target)
    errors = target - solution @ filtered
    rest = max(len(target) - len(design), 1)
    # A series that is predicted perfectly would make any difference infinitely significant.
    variance = max(float(errors @ errors) / len(target), _PREDICTED * float(series.var()), 1e-300)
    num_parameters = order + len(design) + 1
    room = max(n - num_parameters - 1, 1)
    criterion = n * math.log(variance) + 2 * num_parameters * n / room
    return Fit(criterion=criterion, solution=solution, gram=gram, variance=variance * len(target) / rest)


def _solve(gram: Floats, target: Floats) -> Floats:
    if len(gram) == 1 and gram[0, 0] > 1e-300:
        return np.asarray(target * (1 / gram[0]))  # to the last bit what LAPACK gives for one unknown
    return np.asarray(np.linalg.lstsq(gram, target, rcond=1e-12)[0])


def _autoregress(residuals: Floats, max_order: int, num_shapes: int) -> Floats:
    """1, -a_1, ..., -a_p of the order that AICc prefers."""
    n = len(residuals)
    variance = float(residuals @ residuals) / n
    if variance <= 0 or max_order < 1:
        return np.ones(1)
    reflections = burg(residuals, max_order)
    variances = np.cumprod(np.concatenate(([1.0], 1 - reflections**2)))
    orders = np.arange(len(variances))
    room = np.maximum(n - orders - num_shapes - 2, 1)
    order = int(np.argmin(n * np.log(np.maximum(variances, 1e-12)) + 2 * n * (orders + num_shapes + 1) / room))
    polynomial = [1.0]
    for reflection in reflections[:order].tolist():
        padded = [*polynomial, 0.0]
        polynomial = [one - reflection * other for one, other in zip(padded, reversed(padded), strict=True)]
    return np.array(polynomial)


def _filter(polynomial: Floats, values: Floats) -> Floats:
    return np.convolve(values, polynomial, mode="valid")
