"""How long progressive scale expansion takes on one core for seven maps of 736 x 1280, as a network gives them.

Four kinds of page: words apart, words that touch in the larger maps (the usual fault of a text map), twice as many of
these, and a page that is one text area with a kernel every 24 pixels, which no trained network gives. `numba` is the
public queue, one pixel at a time, compiled, for comparison where numba is installed; it must find the same labels.
Prints one JSON object; times are medians in milliseconds of processor time.

    python benchmarks/pse_expansion.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.expansion import MIN_AREA, Expander, find_boxes
from trainmark.workloads.psenet.labels import kernel_rate, shrink

Maps = NDArray[np.uint8]


def make_page(rng: np.random.Generator, *, num_words: int, swell: int, height: int = 736, width: int = 1280) -> Maps:
    """Turned rectangles and their kernels, ragged; `swell` pixels make neighbours touch in the larger maps."""
    packed = np.zeros((height, width), dtype=np.uint8)
    for _ in range(num_words):
        half = np.array([rng.uniform(40, 110), rng.uniform(10, 30)])
        angle = rng.uniform(-0.5, 0.5)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        corners = (np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half) @ turn
        quad = np.rint(corners + rng.uniform((0, 0), (width, height))).astype(np.int32)
        for number in range(NUM_KERNELS):
            plane = np.zeros_like(packed)
            cv2.fillPoly(plane, shrink(quad, kernel_rate(number)), 1)
            if number < NUM_KERNELS - 2:
                plane = cv2.dilate(plane, np.ones((2 * swell + 1, 2 * swell + 1), np.uint8)).astype(np.uint8)
            packed |= plane << number
    ragged = cv2.GaussianBlur(rng.standard_normal((height, width)).astype(np.float32), (0, 0), 1.5)
    packed[ragged > 0.35] = 0  # about a twentieth of the pixels, in specks
    return packed


def make_worst_page(height: int = 736, width: int = 1280) -> Maps:
    packed = np.ones((height, width), dtype=np.uint8)
    for y in range(8, height - 8, 24):
        for x in range(8, width - 8, 24):
            packed[y : y + 5, x : x + 5] = 2**NUM_KERNELS - 1
    return packed


def compile_queue() -> Callable[[Maps], NDArray[np.int32]] | None:
    """The public algorithm itself, one pixel at a time, by numba."""
    try:
        import numba
    except ImportError:
        return None

    @numba.njit
    def grow(free: Any, labels: Any, queue: Any, count: int) -> None:
        height, width = free.shape
        for number in range(NUM_KERNELS - 2, -1, -1):
            first, last, num_waiting = 0, count, 0
            waiting = np.empty(free.size, dtype=np.int64)
            while first < last:
                y, x = queue[first] // width, queue[first] % width
                before = last
                for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                    v, u = y + dy, x + dx
                    if 0 <= v < height and 0 <= u < width and labels[v, u] == 0 and free[v, u] & (1 << number):
                        labels[v, u] = labels[y, x]
                        queue[last] = v * width + u
                        last += 1
                if last == before:
                    waiting[num_waiting] = queue[first]
                    num_waiting += 1
                first += 1
            queue[:num_waiting] = waiting[:num_waiting]
            count = num_waiting

    def run(packed: Maps) -> NDArray[np.int32]:
        free = packed * (packed & 1)
        _, components, facts, _ = cv2.connectedComponentsWithStats(free >> (NUM_KERNELS - 1), connectivity=4)
        keeps = facts[:, cv2.CC_STAT_AREA] >= MIN_AREA
        keeps[0] = False
        labels: NDArray[np.int32] = np.where(keeps, np.cumsum(keeps), 0).astype(np.int32)[components]
        queue = np.empty(free.size, dtype=np.int64)
        places = np.flatnonzero(labels)
        queue[: len(places)] = places
        grow(free, labels, queue, len(places))
        return labels

    return run


def median_ms(call: Callable[[], object], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        call()
        times.append(1000 * (time.thread_time() - begin))
    return round(statistics.median(times), 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    cv2.setNumThreads(0)
    rng = np.random.default_rng(0)
    pages = {
        "apart": make_page(rng, num_words=20, swell=0),
        "touching": make_page(rng, num_words=30, swell=4),
        "crowded": make_page(rng, num_words=60, swell=4),
        "worst": make_worst_page(),
    }
    queue = compile_queue()
    expander = Expander(*pages["apart"].shape)
    result: dict[str, dict[str, float | int | None]] = {}
    for name, packed in pages.items():
        labels, num_words = expander.expand(packed)
        if queue is not None:
            np.testing.assert_array_equal(queue(packed), labels)
        scores = np.full(packed.shape, 0.9, dtype=np.float32)
        result[name] = {
            "words": num_words,
            "text_part": round(float((packed & 1).mean()), 3),
            "expand_ms": median_ms(lambda packed=packed: expander.expand(packed), repeats),  # type: ignore[misc]
            "numba_ms": None if queue is None else median_ms(lambda packed=packed: queue(packed), repeats),  # type: ignore[misc]
            "boxes_ms": median_ms(
                lambda labels=labels, num_words=num_words, scores=scores: find_boxes(labels, num_words, scores),  # type: ignore[misc]
                repeats,
            ),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
