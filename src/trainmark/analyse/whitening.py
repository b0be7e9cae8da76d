"""Is a shape (a step, a ramp) in a series by more than chance, when neighbouring values are correlated?

The noise around the shape is modelled as an autoregression; its filter turns series and shape into ones with
independent errors, where least squares says how significant the shape is and how well the whole fits. Without it every
slow wave of a correlated series would be taken for a change of level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    deviations: Floats
    """Of the coefficient of each shape, in standard errors."""
    coefficients: Floats
    constant: float
    constant_error: float


def fit(series: Floats, shapes: Floats, *, max_order: int = _MAX_ORDER) -> Fit:
    """`shapes` has one row per shape, possibly none; a constant is always part of the fit."""
    n = len(series)
    design = np.vstack((np.ones(n), shapes)) if len(shapes) else np.ones((1, n))
    plain = _solve(design, series)
    residuals = series - plain @ design
    polynomial = _autoregress(residuals, min(max_order, n // 8), len(design))
    order = len(polynomial) - 1
    filtered = np.array([_filter(polynomial, row) for row in design])
    target = _filter(polynomial, series)
    gram = filtered @ filtered.T
    coefficients = _solve(filtered, target)
    errors = target - coefficients @ filtered
    rest = max(len(target) - len(design), 1)
    # A series that is predicted perfectly would make any difference infinitely significant.
    variance = max(float(errors @ errors) / len(target), _PREDICTED * float(series.var()), 1e-300)
    inverse = np.linalg.pinv(gram)
    scale = np.sqrt(np.maximum(variance * len(target) / rest * np.diag(inverse), 1e-300))
    num_parameters = order + len(design) + 1
    room = max(n - num_parameters - 1, 1)
    criterion = n * math.log(variance) + 2 * num_parameters * n / room
    return Fit(
        criterion=criterion,
        deviations=(coefficients / scale)[1:],
        coefficients=coefficients[1:],
        constant=float(coefficients[0]),
        constant_error=float(scale[0]),
    )


def _solve(design: Floats, target: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(design @ design.T, design @ target, rcond=1e-12)[0])


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
    polynomial = np.ones(1)
    for reflection in reflections[:order]:
        padded = np.append(polynomial, 0.0)
        polynomial = padded - reflection * padded[::-1]
    return polynomial


def _filter(polynomial: Floats, values: Floats) -> Floats:
    return np.convolve(values, polynomial, mode="valid")
