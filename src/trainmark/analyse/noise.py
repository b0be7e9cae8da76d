"""Why a result is too noisy to be a number: what was seen, the likely cause, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainmark.analyse.estimate import Estimate
from trainmark.messages.doubts import within_one_run
from trainmark.messages.machine import foreign_gpu_process, noisy_neighbour, throttled
from trainmark.messages.message import Message
from trainmark.messages.numbers import noise_cause, too_noisy

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
    return noise_cause(cause=Message.from_json(recorded) if recorded is not None else found)


def limiting_doubts(estimate: Estimate) -> Sequence[Message]:
    """What was found in the series; that there is only one run is no finding."""
    return [doubt for doubt in estimate.doubts if doubt.code != within_one_run.code]
