"""What `workloads/<id>/metric.py` offers, and the accuracy that several workloads share."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

Scores = NDArray[Any] | list[dict[str, Any]]
"""Of one batch, one rank or all ranks: counts, which are added, or items, which are collected."""


class Metric(Protocol):
    def summarise(self, scores: Any, truth: Any) -> dict[str, float]:
        """Metrics between 0 and 1 by name, from the `Scores` of all ranks; empty where nothing was seen."""


def summarise_accuracy(scores: NDArray[Any], truth: None) -> dict[str, float]:  # noqa: ARG001 - the same for all
    """Top-1 and top-5 from three counts: samples seen, top-1 hits, top-5 hits.

    Counts of ranks add up exactly, so no sample is counted twice.
    """
    num_samples, top1, top5 = scores.tolist()
    return {"top1": top1 / num_samples, "top5": top5 / num_samples} if num_samples else {}
