"""Top-1 and top-5 from counts, so that ranks add up exactly and no padded sample is counted twice."""

from __future__ import annotations

COUNTS = ("top1", "top5")


def from_counts(num_correct: dict[str, float], num_samples: float) -> dict[str, float]:
    if num_samples == 0:
        return {}
    return {name: num_correct[name] / num_samples for name in COUNTS}
