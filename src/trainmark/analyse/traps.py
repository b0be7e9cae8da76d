"""The named warnings, and those that show only when several runs stand side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainmark.store.rows import RunRow

Warning_ = dict[str, str]

CODES = (
    "mean-of-rates",
    "stated-scope",
    "collapsed-record",
    "evaluation-inside",
    "epoch-index",
    "mixed-batch",
    "superlinear",
    "tf32-as-fp32",
    "not-analysed",
)

_SUPERLINEAR = 1.005


def warn(code: str, message: str) -> Warning_:
    assert code in CODES
    return {"code": code, "message": message}


def check_side_by_side(
    rows: Sequence[RunRow], speedups: Sequence[tuple[RunRow, RunRow, float]]
) -> dict[str, list[Warning_]]:
    """By run id. `speedups` are (case, base, quotient) of lines that are compared."""
    found: dict[str, list[Warning_]] = {}
    for run_id, warning in (*_mixed_batches(rows), *_superlinear(speedups)):
        found.setdefault(run_id, []).append(warning)
    return found


def _mixed_batches(rows: Sequence[RunRow]) -> Iterator[tuple[str, Warning_]]:
    """More devices at another batch than the fewest: dividing the two is no speed-up."""
    groups: dict[tuple[Any, ...], list[RunRow]] = {}
    for row in rows:
        if row.dialect is not None and row.devices and row.batch_size_per_device and (row.workload or row.model):
            groups.setdefault((row.workload or row.model, row.framework, row.precision, row.machine), []).append(row)
    for group in groups.values():
        fewest = min(row.devices or 0 for row in group)
        base = {row.batch_size_per_device for row in group if row.devices == fewest}
        for row in group:
            if row.batch_size_per_device not in base:
                sizes = ", ".join(str(size) for size in sorted(base, key=str))
                yield (
                    row.id,
                    warn(
                        "mixed-batch",
                        f"batch {row.batch_size_per_device} per device on {row.devices} devices, {sizes} on {fewest}: "
                        "a quotient of the two is no speed-up",
                    ),
                )


def _superlinear(speedups: Sequence[tuple[RunRow, RunRow, float]]) -> Iterator[tuple[str, Warning_]]:
    for case, base, quotient in speedups:
        ratio = (case.devices or 1) / (base.devices or 1)
        if case.dialect is not None and quotient > _SUPERLINEAR * ratio:
            yield (
                case.id,
                warn(
                    "superlinear",
                    f"{quotient:.2f} times the speed with {ratio:g} times the devices: the base is too slow",
                ),
            )
