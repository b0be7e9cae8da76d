"""Student's t interval of a positive quantity, made on the logarithmic scale.

A rate and a ratio of rates are positive, and the interval of 1/x should be the inverse of the interval of x: both hold
on the logarithmic scale and neither on the plain one. For an interval of ±5% the ends of the two differ by 0.13%.
"""

from __future__ import annotations

import math

from trainmark.analyse.student import quantile_975

# A wider interval than a factor e^20 either way says nothing more, and must stay finite to be written as JSON.
_MAX_LOG_HALF_WIDTH = 20.0


def log_interval(value: float, relative_error: float, dof: float) -> tuple[float, float]:
    """The 95% interval of `value`, whose standard error is `relative_error * value` with `dof` degrees of freedom."""
    if relative_error == 0.0:
        return value, value
    half_width = min(quantile_975(dof) * relative_error, _MAX_LOG_HALF_WIDTH)
    return value * math.exp(-half_width), value * math.exp(half_width)
