"""ICDAR's matching of found and true words, and precision, recall and F from its counts. No framework.

A found word and a true word match if they share more than half of their union. True words marked `###` need not be
found, and a found word with more than half of its area inside such a word is ignored. Matching is one to one and
greedy in the order of the label file, as in ICDAR's own script. Areas are pyclipper's, exact on a grid of 1/256 pixel
and correct for any quadrilateral, also for one that crosses itself: everything that its outline encloses counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyclipper
from numpy.typing import NDArray

COUNTS = ("matched", "num_truth", "num_detected")
_MIN_IOU = 0.5
_MIN_COVER = 0.5
_GRID = 256

Quads = NDArray[np.float64]
Paths = Sequence[Sequence[Sequence[int]]]


def summarise(scores: NDArray[Any], truth: None) -> dict[str, float]:  # noqa: ARG001 - the same for every workload
    """`scores` are the counts over all images. Empty if there is no word to find."""
    matched, num_truth, num_detected = (float(count) for count in scores)
    if num_truth == 0:
        return {}
    return {
        "f": 2 * matched / (num_truth + num_detected),
        "precision": matched / num_detected if num_detected else 0.0,
        "recall": matched / num_truth,
    }


def count_matches(found: Quads, true: Quads, is_ignored: NDArray[np.bool_]) -> tuple[int, int, int]:
    """The COUNTS of one image; quads are (n, 4, 2)."""
    found_paths, true_paths = [_outline(quad) for quad in found], [_outline(quad) for quad in true]
    found_areas, true_areas = [_area(paths) for paths in found_paths], [_area(paths) for paths in true_paths]
    shared = np.zeros((len(true), len(found)))
    for t, f in np.argwhere(_may_touch(true, found)).tolist():
        shared[t, f] = _shared_area(true_paths[t], found_paths[f])
    is_excused = np.asarray((shared[is_ignored] > _MIN_COVER * np.array(found_areas)).any(axis=0))
    is_taken = is_excused.copy()
    matched = 0
    for t in np.flatnonzero(~is_ignored).tolist():
        for f in np.flatnonzero((shared[t] > 0) & ~is_taken).tolist():
            if shared[t, f] > _MIN_IOU * (true_areas[t] + found_areas[f] - shared[t, f]):
                is_taken[f] = True
                matched += 1
                break
    return matched, int((~is_ignored).sum()), int((~is_excused).sum())


def _may_touch(true: Quads, found: Quads) -> NDArray[np.bool_]:
    """By their bounding boxes: most pairs of an image are far apart."""
    low_t, high_t = true.min(axis=1, initial=np.inf)[:, None], true.max(axis=1, initial=-np.inf)[:, None]
    low_f, high_f = found.min(axis=1, initial=np.inf)[None], found.max(axis=1, initial=-np.inf)[None]
    touches: NDArray[np.bool_] = ((low_t <= high_f) & (low_f <= high_t)).all(axis=2)
    return touches


def _outline(quad: NDArray[np.float64]) -> Paths:
    """Without self-intersections; empty for a quad without an area."""
    path = np.rint(quad * _GRID).astype(np.int64).tolist()
    simple: Paths = pyclipper.SimplifyPolygon(path, pyclipper.PFT_NONZERO)
    return simple


def _area(paths: Paths) -> float:
    return float(abs(sum(pyclipper.Area(path) for path in paths))) / _GRID**2


def _shared_area(one: Paths, other: Paths) -> float:
    if not one or not other:
        return 0.0
    clipper = pyclipper.Pyclipper()
    clipper.AddPaths(one, pyclipper.PT_SUBJECT, True)
    clipper.AddPaths(other, pyclipper.PT_CLIP, True)
    return _area(clipper.Execute(pyclipper.CT_INTERSECTION, pyclipper.PFT_NONZERO, pyclipper.PFT_NONZERO))
