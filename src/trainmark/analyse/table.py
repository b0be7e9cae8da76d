"""Runs to lines of a table: repeats pooled, each line compared with the smallest number of devices of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.baseline import find_bases, seat_of, software_of
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.repeats import pool
from trainmark.analyse.result import own_warnings
from trainmark.analyse.speedup import Ratio, efficiency, speedup
from trainmark.analyse.traps import check_side_by_side
from trainmark.analyse.variants import name_variants
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Line:
    """One cell: all its runs together."""

    first: RunRow
    """Carries what the repeats share."""
    runs: tuple[RunRow, ...]
    estimate: Estimate | None
    """Pooled over the runs that ended well; None where none did."""
    speedup: Ratio | None
    """Against the fewest devices with everything else equal; None for that one itself and where nothing compares."""
    efficiency: Ratio | None
    base: RunRow | None
    """The first run of the line that `speedup` divides by."""
    has_other_base: bool
    """That one is of other software or of another host: nothing nearer has fewer devices."""
    variant: str
    """What tells this line from another of the same cell (software, host); empty where it is the only one."""

    @property
    def base_devices(self) -> int | None:
        return self.base.devices if self.base is not None else None

    @property
    def num_ok(self) -> int:
        return sum(run.outcome == "ok" for run in self.runs)

    @property
    def problems(self) -> tuple[RunRow, ...]:
        return tuple(run for run in self.runs if run.outcome != "ok")


def build_lines(rows: Sequence[RunRow]) -> tuple[Line, ...]:
    groups = _group(without_replaced(rows))
    pooled = [(runs, _pool_runs(runs)) for runs in groups]
    bases = _find_bases(pooled)
    variants = _name_variants([runs[0] for runs in groups])
    return tuple(_build_line(runs, estimate, bases.get(runs[0].id), variants[runs[0].id]) for runs, estimate in pooled)


def _name_variants(firsts: Sequence[RunRow]) -> dict[str, str]:
    """Of lines whose cell was run in several; those of one differ in their unit."""
    stands_for: dict[str, dict[tuple[object, ...], RunRow]] = {}
    for row in firsts:
        stands_for.setdefault(row.cell_id, {}).setdefault(_environment(row), row)
    names = name_variants(list(of_cell.values()) for of_cell in stands_for.values())
    return {row.id: names.get(stands_for[row.cell_id][_environment(row)].id, "") for row in firsts}


def without_replaced(rows: Sequence[RunRow]) -> list[RunRow]:
    """An attempt that was made again is no result: the one that stands for it is."""
    replaced = {row.retry_of for row in rows if row.retry_of is not None}
    return [row for row in rows if row.id not in replaced]


Key = tuple[object, ...]


def _group(rows: Sequence[RunRow]) -> list[list[RunRow]]:
    """Repeats are runs of one cell in one environment: a newer framework or commit makes a line of its own.

    So does another unit: a script that printed iterations and now marks samples is the same command, and a mean of
    both would mean nothing.

    A run that failed may not have come to know its environment; it stands with the latest line of its cell, or with the
    first where it came before, but never with one of another machine than its own.
    """
    placed: dict[tuple[str, str | None], Key] = {}
    """For a run that failed, by cell and machine: None stands for any."""
    for row in reversed(rows):
        if row.outcome == "ok":
            placed[row.cell_id, row.machine] = placed[row.cell_id, None] = _key(row)
    groups: dict[Key, list[RunRow]] = {}
    for row in rows:
        key = _key(row)
        if row.outcome == "ok":
            placed[row.cell_id, row.machine] = placed[row.cell_id, None] = key
        else:
            key = placed.setdefault((row.cell_id, row.machine), (row.cell_id, row.machine))
        groups.setdefault(key, []).append(row)
    # The first stands for all: one that knows its environment.
    return [sorted(runs, key=lambda run: run.outcome != "ok") for runs in groups.values()]


def _key(row: RunRow) -> Key:
    return row.cell_id, row.unit, *_environment(row)


def _environment(row: RunRow) -> tuple[object, ...]:
    return row.machine, seat_of(row), software_of(row)


Kind = tuple[object, ...]
Divisor = tuple[RunRow, Estimate, bool]
"""First run and estimate of a base, and whether it is of another environment."""


def _kind(row: RunRow) -> Kind:
    """Everything but the number of devices: only lines of one kind may be divided by each other."""
    own_name = row.model if row.workload is None else None
    return (row.workload, own_name, row.dialect, row.unit, row.framework, row.recipe, row.precision, row.size,
            row.device, row.machine, row.batch_size_per_device, row.data, row.epochs)  # fmt: skip


def _pool_runs(runs: Sequence[RunRow]) -> Estimate | None:
    estimates = [estimate for run in runs if (estimate := estimate_run(run)) is not None]
    return pool(estimates) if estimates else None


def _find_bases(pooled: Sequence[tuple[list[RunRow], Estimate | None]]) -> dict[str, Divisor]:
    """By the first run of the line that is divided."""
    kinds: dict[Kind, list[tuple[list[RunRow], Estimate]]] = {}
    for runs, estimate in pooled:
        if estimate is not None and runs[0].devices is not None:
            kinds.setdefault(_kind(runs[0]), []).append((runs, estimate))
    found: dict[str, Divisor] = {}
    for group in kinds.values():
        for (runs, _), base in zip(group, find_bases([runs for runs, _ in group]), strict=True):
            if base is not None:
                base_runs, estimate = group[base.index]
                found[runs[0].id] = base_runs[0], estimate, base.is_other
    return found


def _build_line(runs: Sequence[RunRow], estimate: Estimate | None, divisor: Divisor | None, variant: str) -> Line:
    first = runs[0]
    base, base_estimate, is_other = divisor or (None, None, False)
    # As many devices on more nodes are no more devices.
    if estimate is None or base is None or base_estimate is None or first.devices == base.devices:
        return Line(
            first=first, runs=tuple(runs), estimate=estimate, speedup=None, efficiency=None, base=None,
            has_other_base=False, variant=variant,
        )  # fmt: skip
    return Line(
        first=first,
        runs=tuple(runs),
        estimate=estimate,
        speedup=speedup(estimate, base_estimate),
        efficiency=efficiency(estimate, base_estimate, (first.devices or 1) / (base.devices or 1)),
        base=base,
        has_other_base=is_other,
        variant=variant,
    )


def warnings_of(lines: Sequence[Line]) -> dict[str, list[dict[str, str]]]:
    """By run id: what a run said itself, what its numbers say, and what shows only beside other runs."""
    rows = [run for line in lines for run in line.runs]
    beside = check_side_by_side(rows, _compared(lines))
    return {row.id: [*own_warnings(row), *beside.get(row.id, ())] for row in rows}


def check_rows(rows: Sequence[RunRow]) -> dict[str, list[dict[str, str]]]:
    """Only imported logs are checked, so that without one there is nothing to compare."""
    is_needed = any(row.dialect is not None for row in rows)
    return check_side_by_side(rows, _compared(build_lines(rows))) if is_needed else {}


def _compared(lines: Sequence[Line]) -> list[tuple[RunRow, RunRow, float]]:
    """Each run whose line has a speed-up, a run of the line it is compared with, and the quotient."""
    return [
        (run, line.base, line.speedup.value)
        for line in lines
        if line.speedup is not None and line.base is not None
        for run in line.runs
    ]
