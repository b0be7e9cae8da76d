"""Top-1 and top-5 from counts, so that ranks add up exactly and no sample is counted twice."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

NAMES = ("top1", "top5")


def from_counts(counts: NDArray[Any]) -> dict[str, float]:
    """`counts`: samples seen, then how many of them were right by each name."""
    num_samples, *correct = counts.tolist()
    return {name: right / num_samples for name, right in zip(NAMES, correct, strict=True)} if num_samples else {}
