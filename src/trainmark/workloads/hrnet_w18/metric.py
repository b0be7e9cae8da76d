"""Mean intersection over union from one confusion matrix over all images (not a mean over images)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def summarise(scores: NDArray[Any], truth: None) -> dict[str, float]:  # noqa: ARG001 - the same for every workload
    """`scores[t, p]` counts the pixels of class t that were predicted as p, without ignored pixels.

    A class that is neither in the truth nor in the predictions has no IoU and is left out of the mean; one that is
    only predicted counts as 0.
    """
    hits = np.diag(scores).astype(np.float64)
    union = scores.sum(0) + scores.sum(1) - hits
    seen = union > 0
    if not seen.any():
        return {}
    return {
        "miou": float((hits[seen] / union[seen]).mean()),
        "pixel_accuracy": float(hits.sum() / scores.sum()),
    }
