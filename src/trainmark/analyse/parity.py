"""How far two frameworks are apart: the same weights and batches in, the differences of what comes out.

Four stages, each with its own kind of evidence. Pure: arrays in, records out; docs/concepts/parity.md has the reasons.

* mathematics: in float64 only different mathematics can differ by more than 1e-9.
* rounding: in a training precision, the error against float64 is at most a few times the reference's own.
* trajectory: many steps stay as close to the reference as the reference stays to itself (`parity_trajectory`).
* work: the same samples, in the same order, with the same rates, FLOPs, parameters and switches (`parity_work`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.parity import MATHEMATICS, ROUNDING, StageRecord

Tensors = Mapping[str, NDArray[Any]]

MATHEMATICS_LIMIT = 1e-9
ROUNDING_LIMITS = {"fp32": 2.0, "bf16": 3.0, "amp": 3.0, "fp16": 3.0, "tf32": 3.0}
"""Times the reference's own error; half precision has fewer digits to average over."""
_ONE_TENSOR = 3.0
"""How much more than all tensors together a single one may exceed the limit: its error is one draw of a few numbers."""
_LEAST_ELEMENTS = 64
"""A tensor with fewer is judged only together with the others."""
_FLOOR = 1e-6
"""Of the typical size of a kind of tensors: what is smaller is rounding, such as a gradient that is zero on paper."""
_EPSILON = {"fp32": 2.0**-24, "tf32": 2.0**-11, "amp": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
_QUANTILES = {"outputs": 0.5, "terms": 0.5, "gradients": 1 / 8, "weights": 1 / 8, "statistics": 0.5}
"""Of the errors on all batches. Rounding puts some activations on the other side of zero, and then ReLU passes or stops
a gradient: by chance, on some batches, an error a thousand times the usual one. The least errors are those without it,
and they show rounding alone: a framework that rounds worse does so on every batch."""
_LAST_DIGIT = 2.0**-23
"""Of a loss, which is float32 in every precision: a single number may be exact by chance, and no other need be."""
_SUM = 2.0**-21
"""No sum need be better than this. Paddle adds the 2,048 products of ResNet-50's last layer, or the pixels of a bias's
gradient, in an order that costs 8e-7; PyTorch's order costs 3e-7 and 1e-7."""
_MAX_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What a few steps gave, by kind of tensor."""

    outputs: Tensors
    terms: Tensors
    gradients: Tensors
    weights: Tensors
    """After the last step; for rounding, by how much they changed."""
    statistics: Tensors
    """BatchNorm's running mean and variance after the last step."""

    def kinds(self) -> dict[str, Tensors]:
        return dict(vars(self))


def check_mathematics(one: Observed, other: Observed) -> StageRecord:
    """Relative L2 difference of each tensor, in float64."""
    found: dict[str, float] = {}
    parts: dict[str, float | None] = {}
    for kind, tensors in one.kinds().items():
        theirs = other.kinds()[kind]
        scale = _typical(tensors)
        own = {
            f"{kind}: {name}": relative_difference(tensors.get(name), theirs.get(name), floor=_FLOOR * scale)
            for name in dict.fromkeys((*tensors, *theirs))
        }
        parts[kind] = _finite(max(own.values(), default=0.0))
        found |= own
    return conclude(MATHEMATICS, "fp64", found, limit=MATHEMATICS_LIMIT, parts=parts)


def relative_difference(one: NDArray[Any] | None, other: NDArray[Any] | None, *, floor: float) -> float:
    """Of norms; infinite if one is missing, has another shape, or is not finite."""
    if one is None or other is None or one.shape != other.shape:
        return math.inf
    if not one.size:
        return 0.0
    apart = float(np.linalg.norm((other.astype(np.float64) - one).ravel()))
    size = max(float(np.linalg.norm(one.astype(np.float64).ravel())), floor * math.sqrt(one.size))
    if not math.isfinite(apart):
        return math.inf
    return apart / size if size > 0 else (0.0 if apart == 0 else math.inf)


def check_rounding(
    exact: Sequence[Observed], reference: Sequence[Observed], other: Sequence[Observed], *, precision: str
) -> StageRecord:
    """Errors against float64 in the first step on each of several batches; `_QUANTILES` says which of them count."""
    limit = ROUNDING_LIMITS[precision]
    found: dict[str, float] = {}
    parts: dict[str, float | None] = {}
    for kind, quantile in _QUANTILES.items():
        floor = _LAST_DIGIT if kind == "terms" else max(_SUM, _EPSILON[precision] / 8)
        own, theirs = (
            [_errors(right, run, kind) for right, run in zip(exact, runs, strict=True)] for runs in (reference, other)
        )
        sides = [[_root_mean(list(errors.values())) for errors in side] for side in (own, theirs)]
        found[f"all {kind}"] = _ratio(*sides, quantile=quantile, floor=floor)
        parts[kind] = _finite(found[f"all {kind}"])
        for name, tensor in exact[0].kinds()[kind].items():
            if tensor.size >= _LEAST_ELEMENTS:
                sides = [[errors[name] for errors in side] for side in (own, theirs)]
                found[f"{kind}: {name}"] = _ratio(*sides, quantile=quantile, floor=floor) / _ONE_TENSOR
    return conclude(ROUNDING, precision, found, limit=limit, parts=parts)


def _ratio(own: Sequence[float], theirs: Sequence[float], *, quantile: float, floor: float) -> float:
    """Of the quantiles of two sides' errors; infinite if a value is missing or not finite on any batch.

    What is wrong on most batches, though not on all, exceeds the largest of the reference's errors.
    """
    if not all(map(math.isfinite, (*own, *theirs))):
        return math.inf
    base, other = (float(np.quantile(side, quantile, method="inverted_cdf")) for side in (own, theirs))
    return max(other / max(base, floor), statistics.median(theirs) / max(*own, floor))


def _errors(exact: Observed, run: Observed, kind: str) -> dict[str, float]:
    """The relative error of each tensor."""
    right, found = exact.kinds()[kind], run.kinds()[kind]
    floor = _FLOOR * _typical(right)
    return {name: relative_difference(tensor, found.get(name), floor=floor) for name, tensor in right.items()}


def worse_of(one: StageRecord, other: StageRecord) -> StageRecord:
    """Of two records of one stage against the same reference: what holds for both, holds for the pair."""
    if one.holds != other.holds:
        return other if one.holds else one
    return max((one, other), key=lambda record: (record.measured is None, (record.measured or 0.0) / record.limit))


def conclude(
    stage: str, precision: str, found: Mapping[str, float], *, limit: float, parts: Mapping[str, float | None]
) -> StageRecord:
    """The largest difference decides; NaN counts as infinite."""
    ranked = sorted(found.items(), key=lambda item: -item[1] if not math.isnan(item[1]) else -math.inf)
    failed = [name for name, value in ranked if not value <= limit]
    worst, value = ranked[0] if ranked else ("nothing was compared", math.inf)
    return StageRecord(
        stage=stage,
        precision=precision,
        measured=_finite(value),
        limit=limit,
        holds=bool(ranked) and not failed,
        worst=worst,
        failed=tuple(failed[:_MAX_NAMED]),
        parts=dict(parts),
    )


def _typical(tensors: Tensors) -> float:
    """Root mean square over all values of a kind."""
    total = sum(float(np.square(array.astype(np.float64)).sum()) for array in tensors.values())
    return math.sqrt(total / max(1, sum(array.size for array in tensors.values())))


def _root_mean(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values) / len(values)) if values else 0.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
