"""Runs to lines of a table: repeats are pooled, and each line is compared with its baseline, the fewest devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainmark.analyse.analysis import estimate_run, own_warnings
from trainmark.analyse.baseline import find_baselines
from trainmark.analyse.estimate import Estimate, Ratio, efficiency, speedup
from trainmark.analyse.identity import pooling_key
from trainmark.analyse.repeats import pool
from trainmark.analyse.variants import name_lines
from trainmark.messages.scaling import mixed_batch, superlinear
from trainmark.store.rows import RunRow

Key = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One cell in one environment: all its runs together."""

    first: RunRow
    """Has what the repeats share."""
    runs: tuple[RunRow, ...]
    estimate: Estimate | None
    """Pooled over the runs whose outcome is `ok`; None if there are none."""
    variant: str
    """Tells this line from another of the same cell (software, host); empty if it is the only one."""
    speedup: Ratio | None = None
    """Against the fewest devices with everything else equal; None for the baseline itself, or if there is none."""
    efficiency: Ratio | None = None
    baseline: RunRow | None = None
    """The first run of the line that `speedup` divides by."""
    has_other_baseline: bool = False
    """The baseline has other software or another host: nothing nearer has fewer devices."""

    @property
    def num_ok(self) -> int:
        return sum(run.outcome == "ok" for run in self.runs)

    @property
    def problems(self) -> tuple[RunRow, ...]:
        return tuple(run for run in self.runs if run.outcome != "ok")


def build_lines(rows: Sequence[RunRow]) -> tuple[Line, ...]:
    groups = _group(without_replaced(rows))
    pooled = [(runs, _pool_runs(runs)) for runs in groups]
    divisors = _find_divisors(pooled)
    variants = name_lines([runs[0] for runs in groups])
    return tuple(
        _build_line(runs, estimate, divisors.get(runs[0].id), variants[runs[0].id]) for runs, estimate in pooled
    )


def without_replaced(rows: Sequence[RunRow]) -> list[RunRow]:
    """Leave out attempts that were retried: only the last attempt counts."""
    replaced = {row.retry_of for row in rows if row.retry_of is not None}
    return [row for row in rows if row.id not in replaced]


# -- repeats -----------------------------------------------------------------------------------------------------------


def _group(rows: Sequence[RunRow]) -> list[list[RunRow]]:
    """Repeats are runs of the same work, code and machine: see `identity.pooling_key`.

    A newer framework or commit makes a line of its own. So does another unit: if a script printed iterations and now
    marks samples, it is the same command, but a mean of both would mean nothing.

    A failed run may not know its environment. It joins the latest line of its cell, or the first one if the run came
    before, but never a line of another machine than its own.
    """
    placed: dict[tuple[str, str | None], Key] = {}
    """For failed runs, by cell and machine; None stands for any machine."""
    for row in reversed(rows):
        if row.outcome == "ok":
            placed[row.cell_id, row.machine] = placed[row.cell_id, None] = pooling_key(row)
    groups: dict[Key, list[RunRow]] = {}
    for row in rows:
        key = pooling_key(row)
        if row.outcome == "ok":
            placed[row.cell_id, row.machine] = placed[row.cell_id, None] = key
        else:
            key = placed.setdefault((row.cell_id, row.machine), (row.cell_id, row.machine))
        groups.setdefault(key, []).append(row)
    # The first run represents the line, so it must be one that knows its environment.
    return [sorted(runs, key=lambda run: run.outcome != "ok") for runs in groups.values()]


def _pool_runs(runs: Sequence[RunRow]) -> Estimate | None:
    estimates = [estimate for run in runs if (estimate := estimate_run(run)) is not None]
    return pool(estimates) if estimates else None


# -- baselines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Divisor:
    first: RunRow
    estimate: Estimate
    is_other: bool
    """Measured in another environment."""


def _find_divisors(pooled: Sequence[tuple[list[RunRow], Estimate | None]]) -> dict[str, _Divisor]:
    """By the first run of the line that is divided."""
    kinds: dict[Key, list[tuple[list[RunRow], Estimate]]] = {}
    for runs, estimate in pooled:
        if estimate is not None and runs[0].devices is not None:
            kinds.setdefault(_kind(runs[0]), []).append((runs, estimate))
    found: dict[str, _Divisor] = {}
    for group in kinds.values():
        for (runs, _), baseline in zip(group, find_baselines([runs for runs, _ in group]), strict=True):
            if baseline is not None:
                others, estimate = group[baseline.index]
                found[runs[0].id] = _Divisor(first=others[0], estimate=estimate, is_other=baseline.is_other)
    return found


def _kind(row: RunRow) -> Key:
    """Everything but the number of devices: only lines of one kind may be divided by each other."""
    own_name = row.model if row.workload is None else None
    return (row.workload, own_name, row.dialect, row.unit, row.framework, row.recipe, row.precision, row.size,
            row.device, row.machine, row.batch_size_per_device, row.data, row.epochs)  # fmt: skip


def _build_line(runs: Sequence[RunRow], estimate: Estimate | None, divisor: _Divisor | None, variant: str) -> Line:
    first = runs[0]
    # The same number of devices on more nodes is not more devices.
    if estimate is None or divisor is None or first.devices == divisor.first.devices:
        return Line(first=first, runs=tuple(runs), estimate=estimate, variant=variant)
    ratio = (first.devices or 1) / (divisor.first.devices or 1)
    return Line(
        first=first,
        runs=tuple(runs),
        estimate=estimate,
        variant=variant,
        speedup=speedup(estimate, divisor.estimate),
        efficiency=efficiency(estimate, divisor.estimate, ratio),
        baseline=divisor.first,
        has_other_baseline=divisor.is_other,
    )


# -- warnings ----------------------------------------------------------------------------------------------------------

Warnings = dict[str, list[dict[str, Any]]]
"""By run id, as `Message.to_json` gives them."""

_SUPERLINEAR = 1.005


def warnings_of(lines: Sequence[Line]) -> Warnings:
    """Recorded by a run, found in its numbers, and found by comparing it with other runs."""
    rows = [run for line in lines for run in line.runs]
    beside = _check_side_by_side(rows, lines)
    return {row.id: [*own_warnings(row), *beside.get(row.id, ())] for row in rows}


def check_rows(rows: Sequence[RunRow]) -> Warnings:
    """Found by comparing runs. Only imported logs are checked, so without one there are none."""
    is_needed = any(row.dialect is not None for row in rows)
    return _check_side_by_side(rows, build_lines(rows)) if is_needed else {}


def _check_side_by_side(rows: Sequence[RunRow], lines: Sequence[Line]) -> Warnings:
    found: Warnings = {}
    for run_id, warning in (*_find_mixed_batches(rows), *_find_superlinear(lines)):
        found.setdefault(run_id, []).append(warning)
    return found


def _find_mixed_batches(rows: Sequence[RunRow]) -> Iterator[tuple[str, dict[str, Any]]]:
    """More devices with another batch than the fewest devices: the quotient of the two is not a speed-up."""
    groups: dict[Key, list[RunRow]] = {}
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


def _find_superlinear(lines: Sequence[Line]) -> Iterator[tuple[str, dict[str, Any]]]:
    """More speed-up than devices: the baseline is too slow."""
    for line in lines:
        if line.speedup is None or line.baseline is None:
            continue
        for run in line.runs:
            ratio = (run.devices or 1) / (line.baseline.devices or 1)
            if run.dialect is not None and line.speedup.value > _SUPERLINEAR * ratio:
                yield run.id, superlinear(speedup=line.speedup.value, ratio=ratio).to_json()
