"""Which of the runs of a store a person wants to see, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainmark.analyse.identity import rows_of_commit
from trainmark.errors import InputError
from trainmark.spec.checking import suggest

if TYPE_CHECKING:
    from trainmark.analyse.table import Line
    from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Filters:
    workload: str | None = None
    since_unix_s: float | None = None
    commit: str | None = None
    failed: bool = False


def filter_rows(rows: Sequence[RunRow], filters: Filters) -> list[RunRow]:
    """An error where nothing is left, so that an empty table never looks like an empty store."""
    found = list(rows)
    if filters.workload is not None:
        known = sorted({name for row in rows if (name := row.workload or row.model)})
        found = [row for row in found if filters.workload in (row.workload, row.model)]
        if not found:
            raise InputError(f"--workload {filters.workload}: no such run", hint=suggest(filters.workload, known))
    if filters.since_unix_s is not None:
        since = filters.since_unix_s
        found = [row for row in found if row.started_unix_s is not None and row.started_unix_s >= since]
    if filters.commit is not None:
        found = rows_of_commit(found, filters.commit) if found else []
    if filters.failed:
        found = [row for row in found if row.outcome not in ("ok", None)]
    if not found:
        raise InputError(_say_nothing_left(filters), hint="leave out a filter; trainmark show lists all runs")
    return found


def _say_nothing_left(filters: Filters) -> str:
    conditions = {
        "--workload": filters.workload,
        "--since": filters.since_unix_s,
        "--commit": filters.commit,
        "--failed": filters.failed,
    }
    return f"no run is left by {', '.join(name for name, value in conditions.items() if value)}"


def sort_lines(lines: Sequence[Line], name: str, *, is_reversed: bool) -> tuple[Line, ...]:
    """By the name of an order; lines without a value come last either way."""
    if name not in ORDERS:
        raise InputError(f"--sort: unknown value {name!r}", hint=suggest(name, list(ORDERS)))
    take = ORDERS[name]
    known = [line for line in lines if take(line) is not None]
    unknown = [line for line in lines if take(line) is None]
    return (*sorted(known, key=take, reverse=is_reversed), *unknown)


ORDERS: dict[str, Callable[[Line], Any]] = {
    "time": lambda line: min((run.started_unix_s for run in line.runs if run.started_unix_s is not None), default=None),
    "throughput": lambda line: None if line.known is None else line.known.value,
    "workload": lambda line: line.first.workload or line.first.model,
    "precision": lambda line: line.first.precision,
    "devices": lambda line: line.first.devices,
    "batch": lambda line: line.first.batch_size_per_device,
    "memory": lambda line: max((run.peak_memory_bytes or 0 for run in line.runs), default=0) or None,
}
