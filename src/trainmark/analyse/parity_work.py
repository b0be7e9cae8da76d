"""Whether two frameworks do the same work: facts that must be equal before their speeds may be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.parity import conclude, relative_difference
from trainmark.runfolder.parity import WORK, StageRecord

Leaves = Sequence[tuple[str, NDArray[Any]]]
"""The arrays of a batch, with a path for each."""

_FLOPS_LIMIT = 0.01
"""Relative: frameworks differ in what they express as a matrix product, such as a resize."""
_RATE_LIMIT = 1e-12
_SHORT_DIGEST = 12
_INPUT_LIMIT = 1e-6
"""Relative, of normalised pixels and of boxes: bytes are divided in another order."""
_UNROUNDED_LIMIT = 0.01
"""Relative, of photos on a GPU: PyTorch resizes them there without rounding, where Pillow rounds to bytes after each of
its two passes. Up to one grey level, which was 4.5e-3 on an H200 and is up to 6.5e-3 for flatter photos."""
_PHOTO_AXES = 4


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one framework was seen to do."""

    facts: Mapping[str, Any]
    """Of the probe in a training precision; `trainmark.worker.probe` names them."""
    samples_per_step: int
    steps_per_epoch: int | None
    rates: NDArray[np.float64]
    batches: Sequence[Leaves]
    """The first augmented batches of a run on generated data."""
    digests: Sequence[str]
    """Of each of these batches: equal if every bit is."""


def check_work(one: Work, other: Work, *, precision: str, device: str) -> StageRecord:
    """Measured in units of each fact's own limit, so the limit is 1; a fact that must be equal gives 0 or infinity."""
    found = {
        name: _equal(one.facts.get(name), other.facts.get(name))
        for name in ("num_parameters", "gradient_bytes", "optimizer_steps", "tf32")
    }
    found["forward_flops"] = _relative(one.facts.get("forward_flops"), other.facts.get("forward_flops")) / _FLOPS_LIMIT
    found["samples per step"] = _equal(one.samples_per_step, other.samples_per_step)
    found["samples per epoch"] = _equal(_samples(one), _samples(other))
    found["learning rates"] = relative_difference(one.rates, other.rates, floor=0) / _RATE_LIMIT
    is_rounded = {_is_rounded(work, device) for work in (one, other)}
    limit = _INPUT_LIMIT if len(is_rounded) == 1 else _UNROUNDED_LIMIT
    for number, (first, second) in enumerate(zip(one.batches, other.batches, strict=False)):
        found[f"batch {number + 1}"] = _compare_batches(first, second, limit)
    found["number of batches"] = _equal(len(one.batches), len(other.batches))
    parts = {name: value if np.isfinite(value) else None for name, value in found.items()}
    record = conclude(WORK, precision, found, limit=1.0, parts=parts)
    ours, theirs = _describe(one), _describe(other)
    return replace(record, facts={name: (ours[name], theirs.get(name, "")) for name in ours})


def _describe(work: Work) -> dict[str, str]:
    """What was compared, and the layout, which may differ."""
    return {
        **{name: str(value) for name, value in work.facts.items() if name != "framework"},
        "samples_per_step": str(work.samples_per_step),
        "samples_per_epoch": str(_samples(work)),
        "learning_rates": " ".join(f"{rate:.6g}" for rate in work.rates),
        "batches": " ".join(digest[:_SHORT_DIGEST] for digest in work.digests),
    }


def _samples(work: Work) -> int | None:
    return None if work.steps_per_epoch is None else work.steps_per_epoch * work.samples_per_step


def _equal(one: Any, other: Any) -> float:
    """A fact that nobody states proves nothing."""
    return 0.0 if one is not None and one == other else float("inf")


def _relative(one: float | None, other: float | None) -> float:
    return abs(other - one) / abs(one) if one and other else float("inf")


def _is_rounded(work: Work, device: str) -> bool:
    """Whether its photos are rounded to bytes after they are resized."""
    return device == "cpu" or not str(work.facts.get("framework")).startswith("torch")


def _compare_batches(one: Leaves, other: Leaves, photo_limit: float) -> float:
    """Bytes and labels must be equal, normalised pixels nearly."""
    if [name for name, _ in one] != [name for name, _ in other]:
        return float("inf")
    worst = 0.0
    for (_, first), (_, second) in zip(one, other, strict=True):
        if first.dtype.kind == "f":
            limit = photo_limit if first.ndim == _PHOTO_AXES else _INPUT_LIMIT
            worst = max(worst, relative_difference(first, second, floor=0) / limit)
        elif not np.array_equal(first, second):
            return float("inf")
    return worst
