"""What an estimate says about itself, and how it is kept in the index."""

from __future__ import annotations

import json

import pytest

from trainmark.analyse.estimate import Estimate
from trainmark.messages.doubts import two_levels, within_one_run


def estimate(low: float | None, high: float | None) -> Estimate:
    return Estimate(
        value=100.0,
        ci95=(low, high) if low is not None and high is not None else None,
        num_steps=50,
        num_warmup_steps=1,
        method="ar-t",
        std_error=1.0,
        dof=9.0,
        spread=(90.0, 110.0),
        doubts=(two_levels(high=110.0, low=90.0, times=3),),
    )


@pytest.mark.parametrize(("low", "high", "noisy"), [(75.0, 125.0, False), (74.0, 126.0, True), (None, None, False)])
def test_an_interval_wider_than_a_quarter_is_no_result(low: float | None, high: float | None, noisy: bool) -> None:
    assert estimate(low, high).is_too_noisy is noisy
    assert estimate(low, high).is_refused is (low is None)


def test_it_is_kept_as_json_with_its_doubts() -> None:
    kept = json.loads(json.dumps(estimate(95.0, 105.0).to_json()))
    assert Estimate.from_json(kept) == estimate(95.0, 105.0)
    assert kept["doubts"][0]["code"] == "two-levels"


def test_one_kept_by_an_older_version_is_read() -> None:
    kept = estimate(95.0, 105.0).to_json()
    del kept["spread"], kept["doubts"]
    found = Estimate.from_json(kept)
    assert (found.value, found.ci95, found.spread, found.doubts) == (100.0, (95.0, 105.0), None, ())


def test_only_a_single_run_is_labelled_as_such() -> None:
    assert not estimate(95.0, 105.0).is_within_one_run
    assert Estimate(**{**vars(estimate(95.0, 105.0)), "doubts": (within_one_run(),)}).is_within_one_run
