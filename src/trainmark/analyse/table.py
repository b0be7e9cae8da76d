"""Runs to lines of a table: repeats are pooled, and each line is compared with its baseline, the fewest devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.baseline import find_baselines
from trainmark.analyse.estimate import Estimate, Ratio, efficiency, speedup
from trainmark.analyse.origin import pooling_key
from trainmark.analyse.repeats import pool
from trainmark.analyse.variants import name_lines
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
    def known(self) -> Estimate | None:
        """The estimate, unless it is too noisy to be a result."""
        return None if self.estimate is None or self.estimate.is_too_noisy else self.estimate

    @property
    def num_ok(self) -> int:
        return sum(run.outcome == "ok" for run in self.runs)

    @property
    def problems(self) -> tuple[RunRow, ...]:
        return tuple(run for run in self.runs if run.outcome != "ok")


def build_lines(rows: Sequence[RunRow]) -> tuple[Line, ...]:
    return _build_lines(tuple(rows))


@lru_cache(maxsize=2)
def _build_lines(rows: tuple[RunRow, ...]) -> tuple[Line, ...]:
    """Kept: several parts of an output ask for the lines of the same rows."""
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
    """Repeats are runs of the same work, code and machine: see `origin.pooling_key`.

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
    is_same = divisor is not None and first.devices == divisor.first.devices
    if estimate is None or divisor is None or is_same or estimate.is_too_noisy or divisor.estimate.is_too_noisy:
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
