"""What an export says of a number that is too noisy, or that breaks a law: never a made-up number instead."""

from __future__ import annotations

from typing import Any

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.laws import marks_of
from trainmark.report.exporting import shorten
from trainmark.store.rows import RunRow

TOO_NOISY = "too noisy to be a number"
"""Why a run is left out of a format that has no null."""


def is_too_noisy(row: RunRow) -> bool:
    estimate = estimate_run(row)
    return estimate is not None and estimate.is_too_noisy


def known_speed(row: RunRow) -> float | None:
    """None for a run without a result, and for one that is too noisy to be a number."""
    estimate = estimate_run(row)
    return None if estimate is None or estimate.is_too_noisy else estimate.value


def describe_limits(row: RunRow) -> dict[str, Any]:
    """Empty for most runs, so that a format gets no new keys for them."""
    estimate, marks = estimate_run(row), marks_of(row)
    found: dict[str, Any] = {}
    if estimate is not None and estimate.is_too_noisy:
        found["spread"] = [shorten(bound) for bound in estimate.spread] if estimate.spread else None
    if marks:
        found["marks"] = [mark.to_json() for mark in marks]
    return found
