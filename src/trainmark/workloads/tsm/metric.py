"""Top-1 and top-5 accuracy of clips."""

from trainmark.workloads.metric import summarise_accuracy as summarise

__all__ = ["summarise"]
