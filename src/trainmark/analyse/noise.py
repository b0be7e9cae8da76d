"""Why a result is too noisy to be a number: what was seen, the likely cause, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.repeats import BETWEEN
from trainmark.messages.doubts import within_one_run
from trainmark.messages.machine import foreign_gpu_process, noisy_neighbour, throttled
from trainmark.messages.message import Message
from trainmark.messages.numbers import noise_cause, only_two_runs, too_noisy

DISTURBANCES = frozenset({noisy_neighbour.code, throttled.code, foreign_gpu_process.code})
"""Warnings that a run recorded and that explain noise."""


def explain_noise(estimate: Estimate, unit: str, warnings: Iterable[Mapping[str, Any]]) -> Message:
    """`warnings`: of the runs behind the estimate, as recorded."""
    low, high = estimate.spread or (None, None)
    half_width = estimate.relative_half_width
    return too_noisy(low=low, high=high, unit=unit, half_width=half_width, advice=find_cause(estimate, warnings))


def find_cause(estimate: Estimate, warnings: Iterable[Mapping[str, Any]]) -> Message:
    """What disturbed the runs if that was recorded, else what their series show, and what to do."""
    recorded = next((warning for warning in warnings if warning.get("code") in DISTURBANCES), None)
    found = next(iter(limiting_doubts(estimate)), None)
    if recorded is None and (apart := _gap_of_two(estimate)) is not None:
        return only_two_runs(apart=apart, doubt=found)
    return noise_cause(cause=Message.from_json(recorded) if recorded is not None else found)


def _gap_of_two(estimate: Estimate) -> float | None:
    """By how much exactly two runs differ: with one degree of freedom the interval is wide whatever the cause.

    Their 95% interval is 12.7 standard errors, that of three runs 4.3.
    """
    if estimate.method != BETWEEN or estimate.dof != 1 or estimate.spread is None:
        return None
    low, high = estimate.spread
    return high / low - 1


def limiting_doubts(estimate: Estimate) -> Sequence[Message]:
    """What was found in the series; that there is only one run is no finding."""
    return [doubt for doubt in estimate.doubts if doubt.code != within_one_run.code]
