"""Progressive scale expansion: from seven maps to one label per word, then to rectangles. numpy and OpenCV only.

The words are the 4-connected components of the smallest kernel, numbered by their first pixel in reading order. Kernel
by kernel they grow breadth-first, one ring of 4-neighbours at a time, over the pixels of the next larger kernel. The
first word to reach a pixel gets it. If two words reach a pixel in the same ring, the direction decides: the word below
it comes before the one above, then the one to its right, then the one to its left.

Two facts make this fast in numpy. Growth ends with the whole text map, so a component of the text map that contains a
single word becomes that word, whatever the kernels between are; only words that touch need to be grown. And the
neighbours in one direction of the distinct pixels of a ring are distinct, so a ring is four array operations.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.psenet.card import NUM_KERNELS

MIN_AREA = 16
MIN_SCORE = 0.85

Labels = NDArray[np.int32]


class Expander:
    """For images of one size; it reuses its memory, because new pages for each image would cost more than growing."""

    def __init__(self, height: int, width: int) -> None:
        # With a border that is never text, so that no step has to check for the edge of the image.
        shape = height + 2, width + 2
        self._free = np.zeros(shape, dtype=np.uint8)
        self._components, self._areas, self._labels = (np.zeros(shape, dtype=np.int32) for _ in range(3))

    def expand(self, maps: NDArray[np.uint8], *, min_area: int = MIN_AREA) -> tuple[Labels, int]:
        """Labels 1 to n (0: no word), and n; the labels are valid until the next call.

        Bit i of `maps` is map i; a kernel counts within the text only.
        """
        free, areas, labels = self._free, self._areas, self._labels
        np.multiply(maps, maps & 1, out=free[1:-1, 1:-1])
        places, numbers, num_words = self._find_words(min_area)
        num_areas, _ = cv2.connectedComponents(free & 1, areas, connectivity=4, ltype=cv2.CV_32S)
        area_of_place = areas.ravel()[places]
        area_of_word = np.zeros(num_words + 1, dtype=np.int32)
        area_of_word[numbers] = area_of_place
        num_inside = np.bincount(area_of_word[1:], minlength=num_areas)
        owner = np.zeros(num_areas, dtype=np.int32)
        owner[area_of_word[1:]] = np.arange(1, num_words + 1)
        owner[num_inside != 1] = 0
        owner.take(areas, out=labels, mode="clip")  # no area is out of range; with "raise" numpy would copy the output
        is_shared = (num_inside > 1)[area_of_place]
        _grow(labels.ravel(), free.ravel(), places[is_shared], numbers[is_shared], stride=free.shape[1])
        return labels[1:-1, 1:-1], num_words

    def _find_words(self, min_area: int) -> tuple[NDArray[np.int64], Labels, int]:
        """The pixels of the words as flat positions, the word of each, and how many words there are."""
        kernel = self._free >> (NUM_KERNELS - 1)
        num, _ = cv2.connectedComponents(kernel, self._components, connectivity=4, ltype=cv2.CV_32S)
        places = np.flatnonzero(kernel.view(np.bool_))
        numbers = self._components.ravel()[places]
        keeps = np.bincount(numbers, minlength=num) >= min_area
        keeps[0] = False
        is_kept = keeps[numbers]
        number_of = np.cumsum(keeps).astype(np.int32)
        return places[is_kept], number_of[numbers[is_kept]], int(keeps.sum())


def _grow(labels: Labels, free: NDArray[np.uint8], edge: NDArray[np.int64], numbers: Labels, *, stride: int) -> None:
    """Writes into the flat `labels`, kernel by kernel; `edge` and `numbers` are the pixels of the words to grow.

    `free` has the maps of the pixels that belong to no word yet, and 0 for all others.
    """
    labels[edge] = numbers
    free[edge] = 0
    for number in range(NUM_KERNELS - 2, -1, -1):
        # Only a pixel next to text without a word can grow, now or later.
        edge = edge[(free[edge - stride] | free[edge + stride] | free[edge - 1] | free[edge + 1]) != 0]
        rings = [edge]
        while len(rings[-1]):
            rings.append(_next_ring(labels, free, rings[-1], (-stride, stride, -1, 1), np.uint8(1 << number)))
        edge = np.concatenate(rings)


def _next_ring(
    labels: Labels, free: NDArray[np.uint8], ring: NDArray[np.int64], steps: tuple[int, ...], bit: np.uint8
) -> NDArray[np.int64]:
    numbers = labels[ring]
    parts = []
    for step in steps:
        targets = ring + step
        chosen = np.flatnonzero(free[targets] & bit)
        targets = targets[chosen]
        labels[targets] = numbers[chosen]
        free[targets] = 0
        parts.append(targets)
    return np.concatenate(parts)


def find_boxes(
    labels: Labels, num_words: int, scores: NDArray[np.float32], *, min_score: float = MIN_SCORE
) -> NDArray[np.float64]:
    """Corners (n, 4, 2) of the smallest rectangle around each word whose mean score is high enough."""
    places = np.flatnonzero(labels)
    numbers = labels.ravel()[places]
    sums = np.bincount(numbers, weights=scores.ravel()[places], minlength=num_words + 1)
    means = sums / np.maximum(np.bincount(numbers, minlength=num_words + 1), 1)
    boxes = []
    for number, (top, left, bottom, right) in enumerate(_windows(places, numbers, num_words, labels.shape[1])):
        if top > bottom or means[number + 1] < min_score:  # a label without a pixel, or not sure enough
            continue
        window = labels[top : bottom + 1, left : right + 1] == number + 1
        outlines, _ = cv2.findContours(window.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        rectangle = cv2.minAreaRect(np.concatenate(outlines))
        boxes.append(cv2.boxPoints(rectangle) + np.array([left, top]))
    return np.array(boxes, dtype=np.float64).reshape(-1, 4, 2)


def _windows(places: NDArray[np.int64], numbers: Labels, num_words: int, width: int) -> list[list[int]]:
    """(top, left, bottom, right) of each word's pixels, bounds included; top > bottom for a word without pixels."""
    position = np.stack(np.divmod(places, width))
    low = np.full((2, num_words + 1), np.iinfo(np.int64).max)
    high = np.full((2, num_words + 1), -1)
    for axis in range(2):
        np.minimum.at(low[axis], numbers, position[axis])
        np.maximum.at(high[axis], numbers, position[axis])
    windows: list[list[int]] = np.concatenate([low, high])[:, 1:].T.tolist()
    return windows
