"""Bilinear resizing along one axis as a matrix, in numpy: for frameworks whose own differs, and for masks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def linear_weights(old: int, new: int) -> NDArray[np.float64]:
    """Row i has the weights of the old pixels for the new pixel i; corners are not aligned."""
    places = np.maximum((np.arange(new) + 0.5) * (old / new) - 0.5, 0.0)
    first = np.minimum(places.astype(np.int64), old - 1)
    second = np.minimum(first + 1, old - 1)
    share = places - first
    weights = np.zeros((new, old))
    rows = np.arange(new)
    np.add.at(weights, (rows, first), 1 - share)
    np.add.at(weights, (rows, second), share)
    return weights
