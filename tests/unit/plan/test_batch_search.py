from __future__ import annotations

import pytest

from trainmark.plan.batch_search import next_batch, search_batch


@pytest.mark.parametrize("first", [1, 2, 7, 48, 64, 100, 129, 256, 5000])
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 31, 63, 64, 65, 72, 99, 127, 128, 517, 4096])
def test_the_largest_is_found_from_anywhere(first: int, limit: int) -> None:
    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= limit

    found = search_batch(first, fits, most=1 << 20, max_tries=40)
    assert found.is_exact
    assert found.num_tries == len(tried) == len(set(tried)), "nothing is tried twice"
    assert min(tried) >= 1
    assert found.too_large is not None
    assert found.too_large > limit
    if limit == 0:
        assert (found.largest, found.too_large) == (None, 1)
        return
    assert found.largest is not None
    assert found.largest <= limit
    assert found.too_large <= next_batch(found.largest), "nothing is left between them"


def test_a_data_set_sets_the_end() -> None:
    found = search_batch(16, lambda size: True, most=50, max_tries=40)
    assert (found.largest, found.too_large, found.num_tries, found.is_exact) == (50, None, 3, True)
    assert search_batch(64, lambda size: True, most=50, max_tries=40).num_tries == 1


def test_tries_are_limited() -> None:
    found = search_batch(1, lambda size: size <= 1000, most=1 << 20, max_tries=5)
    assert (found.largest, found.too_large, found.is_exact) == (16, None, False)
    found = search_batch(1 << 19, lambda size: size < 3, most=1 << 20, max_tries=3)
    assert (found.largest, found.is_exact) == (None, False)
