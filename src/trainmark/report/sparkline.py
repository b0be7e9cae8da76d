"""A series as one line of text: a bar for each column, from the least to the greatest value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BARS = "▁▂▃▄▅▆▇█"


def draw(values: Sequence[float] | NDArray[np.float64], *, width: int) -> str:
    """Of several values in one column the greatest is drawn: a single slow step must be seen among a million."""
    import numpy as np

    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return ""
    parts = np.array_split(finite, min(width, finite.size))
    peaks = np.array([part.max() for part in parts])
    low, high = float(finite.min()), float(finite.max())
    if high <= low:
        return _BARS[0] * len(parts)
    levels = ((peaks - low) / (high - low) * (len(_BARS) - 1)).round().astype(int)
    return "".join(_BARS[level] for level in levels)
