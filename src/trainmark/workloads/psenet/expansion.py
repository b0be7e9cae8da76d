"""Progressive scale expansion: from seven maps to one label per word, then to rectangles. numpy and OpenCV only.

The words are the 4-connected components of the smallest kernel, numbered by their first pixel in reading order. Kernel
by kernel they grow over the pixels of the next larger one, as in the public code: a first-in first-out queue holds the
pixels of all words, at first in reading order; a pixel takes its free neighbours above, below, left and right, which
join the queue. A pixel that took at least one neighbour is done for good. One that took none waits for the next kernel,
in the order in which it left the queue.

The queue is emptied in waves: all pixels that are in it at once. A neighbour belongs to the first pixel of the wave
that asks for it, so a wave is a few array operations instead of a loop over pixels.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.psenet.card import NUM_KERNELS

MIN_AREA = 16
MIN_SCORE = 0.85

Labels = NDArray[np.int32]
Places = NDArray[np.int64]
"""Flat positions in a bordered image."""


class Expander:
    """For images of one size; it reuses its memory, because new pages for each image would cost more than growing."""

    def __init__(self, height: int, width: int) -> None:
        # With a border that is never text, so that no step has to check for the edge of the image.
        shape = height + 2, width + 2
        self._free = np.zeros(shape, dtype=np.uint8)
        """The maps of the pixels that belong to no word yet, and 0 for all others."""
        self._components, self._labels, self._ranks = (np.zeros(shape, dtype=np.int32) for _ in range(3))
        self._steps = np.array([-shape[1], shape[1], -1, 1])

    def expand(self, maps: NDArray[np.uint8], *, min_area: int = MIN_AREA) -> tuple[Labels, int]:
        """Labels 1 to n (0: no word), and n; the labels are valid until the next call.

        Bit i of `maps` is map i; a kernel counts within the text only.
        """
        np.multiply(maps, maps & 1, out=self._free[1:-1, 1:-1])
        places, numbers, num_words = self._find_words(min_area)
        self._labels.fill(0)
        self._labels.ravel()[places] = numbers
        self._free.ravel()[places] = 0
        for number in range(NUM_KERNELS - 2, -1, -1):
            places = self._grow(places, np.uint8(1 << number))
        return self._labels[1:-1, 1:-1], num_words

    def _find_words(self, min_area: int) -> tuple[Places, Labels, int]:
        """The pixels of the words in reading order, the word of each, and how many words there are."""
        kernel = self._free >> (NUM_KERNELS - 1)
        num, _ = cv2.connectedComponents(kernel, self._components, connectivity=4, ltype=cv2.CV_32S)
        places = np.flatnonzero(kernel.view(np.bool_))
        numbers = self._components.ravel()[places]
        keeps = np.bincount(numbers, minlength=num) >= min_area
        keeps[0] = False
        is_kept = keeps[numbers]
        number_of = np.cumsum(keeps).astype(np.int32)
        return places[is_kept], number_of[numbers[is_kept]], int(keeps.sum())

    def _grow(self, queue: Places, bit: np.uint8) -> Places:
        """Over the pixels of one map; returns the pixels that wait for the next map, in order."""
        free = self._free.ravel()
        above, below, left, right = (free[queue + step] for step in self._steps)
        queue = queue[(above | below | left | right) != 0]  # a pixel without text around it can never grow
        waiting = []
        while len(queue):
            queue, idle = self._next_wave(queue, bit)
            waiting.append(idle)
        return np.concatenate(waiting) if waiting else queue

    def _next_wave(self, queue: Places, bit: np.uint8) -> tuple[Places, Places]:
        """The pixels that this wave takes, in the order in which they join the queue, and those that took none."""
        free, labels, ranks = self._free.ravel(), self._labels.ravel(), self._ranks.ravel()
        asked = queue[:, None] + self._steps
        requests = np.flatnonzero(free[asked] & bit)  # by pixel of the queue, then by direction
        targets = asked.ravel()[requests]
        order = np.arange(len(requests), dtype=np.int32)
        ranks[targets[::-1]] = order[::-1]  # of several requests for a pixel, the last one written is the first
        is_first = ranks[targets] == order
        targets, sources = targets[is_first], requests[is_first] // len(self._steps)
        labels[targets] = labels[queue[sources]]
        free[targets] = 0
        is_idle = np.ones(len(queue), dtype=bool)
        is_idle[sources] = False
        return targets, queue[is_idle]


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
