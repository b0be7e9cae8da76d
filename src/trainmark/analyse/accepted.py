"""An accepted result: one block of a baseline file. Single runs are kept, so that their spread is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.analyse.tolerance import Metric, ToleranceRule


@dataclass(frozen=True, kw_only=True)
class Accepted:
    name: str
    work: str
    """Content hash of what is measured: the same cell has the same in every commit."""
    machine: str | None
    """Content hash of the machine; None if it is unknown."""
    machine_facts: Mapping[str, str]
    """What the hash is made of, to say what differs."""
    unit: str
    values: Mapping[Metric, tuple[float, ...]]
    """One value per run that has it; the throughput of every run."""
    metric_name: str | None = None
    """Of the accuracy, such as top1."""
    suite: str | None = None
    last_run: str = ""
    """Id of the newest of the runs."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """For people: host, commit, framework, when it was measured."""

    @property
    def key(self) -> tuple[str, str | None]:
        return self.work, self.machine


@dataclass(frozen=True, kw_only=True)
class Baseline:
    cells: tuple[Accepted, ...]
    rules: tuple[ToleranceRule, ...] = ()

    def machines(self) -> set[str | None]:
        return {cell.machine for cell in self.cells}

    def of_work(self, work: str) -> tuple[Accepted, ...]:
        return tuple(cell for cell in self.cells if cell.work == work)


def merge(old: Sequence[Accepted], new: Sequence[Accepted]) -> tuple[Accepted, ...]:
    """The new blocks replace those of the same cell and machine; the others stay. Sorted, so that diffs are small."""
    found = {cell.key: cell for cell in (*old, *new)}
    return tuple(sorted(found.values(), key=lambda cell: (cell.name, cell.work, cell.machine or "")))
