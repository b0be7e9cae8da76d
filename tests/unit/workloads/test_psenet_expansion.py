from __future__ import annotations

from collections import deque

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.psenet.expansion import Expander, find_boxes

ALL = 2**NUM_KERNELS - 1
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def plain_components(kernel: NDArray[np.bool_], min_area: int) -> NDArray[np.int32]:
    """Flood fill, one pixel at a time, in reading order."""
    labels = np.zeros(kernel.shape, dtype=np.int32)
    seen = ~kernel
    num = 0
    for start in zip(*np.nonzero(kernel), strict=True):
        if seen[start]:
            continue
        stack, pixels = [start], []
        seen[start] = True
        while stack:
            y, x = stack.pop()
            pixels.append((y, x))
            for v, u in ((y + dy, x + dx) for dy, dx in STEPS):
                if 0 <= v < kernel.shape[0] and 0 <= u < kernel.shape[1] and not seen[v, u]:
                    seen[v, u] = True
                    stack.append((v, u))
        if len(pixels) >= min_area:
            num += 1
            for pixel in pixels:
                labels[pixel] = num
    return labels


def plain_expand(maps: NDArray[np.uint8], min_area: int) -> NDArray[np.int32]:
    """The public definition with a queue, one pixel at a time."""
    maps = maps * (maps & 1)
    labels = plain_components((maps >> (NUM_KERNELS - 1)) != 0, min_area)
    height, width = maps.shape
    owner, kernels = labels.tolist(), maps.tolist()
    queue = deque(zip(*(part.tolist() for part in np.nonzero(labels)), strict=True))
    for number in range(NUM_KERNELS - 2, -1, -1):
        waiting = deque()
        while queue:
            y, x = queue.popleft()
            has_grown = False
            for dy, dx in STEPS:
                v, u = y + dy, x + dx
                inside = 0 <= v < height and 0 <= u < width
                if inside and owner[v][u] == 0 and kernels[v][u] & (1 << number):
                    owner[v][u] = owner[y][x]
                    queue.append((v, u))
                    has_grown = True
            if not has_grown:
                waiting.append((y, x))
        queue = waiting
    return np.array(owner, dtype=np.int32)


def random_maps(rng: np.random.Generator, *, nested: bool, sides: tuple[int, int] = (8, 28)) -> NDArray[np.uint8]:
    height, width = rng.integers(*sides, 2)
    maps = np.zeros((height, width), dtype=np.uint8)
    field = cv2.GaussianBlur(rng.standard_normal((height, width)), (0, 0), 2.0)
    for number in range(NUM_KERNELS):
        if not nested:
            field = field + 0.3 * cv2.GaussianBlur(rng.standard_normal((height, width)), (0, 0), 2.0)
        maps |= (field > (number - 2) * 0.03).astype(np.uint8) << number
    return maps


@pytest.mark.parametrize("nested", [True, False])
def test_equals_the_public_queue_on_500_random_maps(nested: bool) -> None:
    rng = np.random.default_rng(7 + nested)
    contested = unreached = 0
    for _ in range(500):
        maps = random_maps(rng, nested=nested)
        labels, num = Expander(*maps.shape).expand(maps, min_area=4)
        expected = plain_expand(maps, 4)
        np.testing.assert_array_equal(labels, expected)
        assert num == expected.max()
        num_areas, areas = cv2.connectedComponents(maps & 1, connectivity=4)
        kinds = [np.unique(labels[areas == area]) for area in range(1, num_areas)]
        contested += sum((kind > 0).sum() > 1 for kind in kinds)
        unreached += sum(len(kind) > 1 and kind[0] == 0 for kind in kinds)
    assert contested > 100, "words that touch must be among the cases"
    assert unreached > 5, "so must text that stays free because the pixel beside it was done"


@pytest.mark.parametrize("nested", [True, False])
def test_equals_the_public_queue_on_larger_maps(nested: bool) -> None:
    rng = np.random.default_rng(70 + nested)
    for _ in range(15):
        maps = random_maps(rng, nested=nested, sides=(60, 100))
        np.testing.assert_array_equal(Expander(*maps.shape).expand(maps, min_area=4)[0], plain_expand(maps, 4))


def test_an_expander_serves_many_images() -> None:
    rng = np.random.default_rng(3)
    expander = Expander(32, 48)
    for _ in range(5):
        maps = rng.integers(0, 2, (32, 48)).astype(np.uint8) * ALL
        np.testing.assert_array_equal(expander.expand(maps, min_area=3)[0], plain_expand(maps, 3))


def test_two_words_that_touch_in_the_text_map_share_it_at_the_middle() -> None:
    maps = np.zeros((12, 30), dtype=np.uint8)
    maps[2:10, 2:28] = 1
    maps[4:8, 4:9] = maps[4:8, 21:26] = ALL
    labels, num = Expander(12, 30).expand(maps)
    assert num == 2
    row = labels[5]
    assert (row[2:15] == 1).all()  # columns 9 to 14 are as near to 8 as 15 to 20 are to 21
    assert (row[15:28] == 2).all()
    assert (labels[:2] == 0).all()


def test_a_tie_goes_to_the_word_whose_pixel_came_first() -> None:
    """Columns 5 and 7 are taken in the first wave; column 6 in the second, in which the left word's pixel is first."""
    maps = np.zeros((6, 13), dtype=np.uint8)
    maps[1:5, 1:12] = 1
    maps[1:5, 1:5] = maps[1:5, 8:12] = ALL
    labels, _ = Expander(6, 13).expand(maps)
    assert labels[2].tolist() == [0, *[1] * 6, *[2] * 5, 0]


def test_a_pixel_that_grew_once_never_grows_again() -> None:
    """The pixel right of the word takes the next one in map 5; the text below it, only in map 0, stays free."""
    maps = np.zeros((6, 12), dtype=np.uint8)
    maps[1, 1:6] = ALL
    maps[1, 6:8] = 0b111111
    maps[2, 6] = 1
    labels, num = Expander(6, 12).expand(maps, min_area=4)
    assert num == 1
    assert labels[1, 1:8].tolist() == [1] * 7
    assert labels[2, 6] == 0


def test_small_kernels_are_dropped_and_text_without_a_kernel_is_nobody_s() -> None:
    maps = np.zeros((20, 40), dtype=np.uint8)
    maps[2:8, 2:10] = 1
    maps[3:6, 3:8] = ALL  # 15 pixels
    maps[2:8, 20:30] = 1
    maps[3:7, 21:25] = ALL  # 16
    labels, num = Expander(20, 40).expand(maps)
    assert num == 1
    assert (labels[2:8, 20:30] == 1).all()
    assert (labels[:, :15] == 0).all()


@pytest.mark.parametrize("value", [0, 1, ALL])
def test_empty_and_full_pages(value: int) -> None:
    maps = np.full((20, 20), value, dtype=np.uint8)
    labels, num = Expander(20, 20).expand(maps)
    assert num == (value == ALL)
    assert (labels == num).all()
    assert find_boxes(labels, num, np.ones((20, 20), np.float32)).shape == (num, 4, 2)


def test_a_kernel_outside_of_the_text_does_not_count() -> None:
    maps = np.full((20, 20), ALL - 1, dtype=np.uint8)
    assert Expander(20, 20).expand(maps)[1] == 0


def test_boxes_and_the_least_score() -> None:
    labels = np.zeros((40, 60), dtype=np.int32)
    labels[5:16, 10:31] = 1
    labels[25:31, 10:31] = 2
    scores = np.where(labels == 1, 0.85, 0.84).astype(np.float32)
    scores[labels == 1] = 0.86
    (box,) = find_boxes(labels, 2, scores)
    assert sorted(map(tuple, np.rint(box).astype(int).tolist())) == [(10, 5), (10, 15), (30, 5), (30, 15)]


def test_a_turned_word_gives_a_turned_rectangle() -> None:
    maps = np.zeros((100, 100), dtype=np.uint8)
    quad = np.array([[20, 50], [60, 20], [72, 36], [32, 66]], dtype=np.int32)
    cv2.fillConvexPoly(maps, quad, ALL)
    labels, num = Expander(100, 100).expand(maps)
    (box,) = find_boxes(labels, num, np.ones((100, 100), np.float32))
    for corner in quad:
        assert np.linalg.norm(box - corner, axis=1).min() < 2
