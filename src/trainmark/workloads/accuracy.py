"""Top-1 and top-5 from counts, so that ranks add up exactly and no padded sample is counted twice."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def from_counts(scores: NDArray[Any]) -> dict[str, float]:
    """`scores` is [num_samples, num_top1, num_top5]; empty where nothing was seen."""
    num_samples, top1, top5 = (float(value) for value in scores)
    return {"top1": top1 / num_samples, "top5": top5 / num_samples} if num_samples else {}
