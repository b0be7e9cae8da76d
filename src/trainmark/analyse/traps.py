"""Warnings that need several runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainmark.messages.scaling import mixed_batch, superlinear
from trainmark.store.rows import RunRow

Warning_ = dict[str, Any]
"""As `Message.to_json` gives it."""

_SUPERLINEAR = 1.005


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
        sizes = [str(size) for size in sorted(base, key=str)]
        for row in group:
            batch, devices = row.batch_size_per_device, row.devices
            if batch is not None and devices is not None and batch not in base:
                warning = mixed_batch(batch=batch, devices=devices, base_batches=sizes, base_devices=fewest)
                yield row.id, warning.to_json()


def _superlinear(speedups: Sequence[tuple[RunRow, RunRow, float]]) -> Iterator[tuple[str, Warning_]]:
    for case, base, quotient in speedups:
        ratio = (case.devices or 1) / (base.devices or 1)
        if case.dialect is not None and quotient > _SUPERLINEAR * ratio:
            yield case.id, superlinear(speedup=quotient, ratio=ratio).to_json()
