"""Scaling studies: lines that differ only in the number of devices, compared with the smallest number among them.

Weak scaling keeps the batch per device, strong scaling the global batch. A count that was requested, that failed, or
that a sibling (another precision, recipe or batch of the same workload) has, is a case too: missing, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainmark.analyse.baseline import baseline_rank, find_baselines
from trainmark.analyse.estimate import Ratio, efficiency, speedup
from trainmark.analyse.lost_time import LostTime, explain_lost_time, is_poor
from trainmark.analyse.table import Line
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow

Mode = Literal["weak", "strong", "unknown"]
"""`unknown` if the batch size is not known, as for a user's own script."""
Count = tuple[int | None, int]
"""Number of nodes, and of devices over all nodes."""
Facts = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A cell of a plan, whether it ran or not."""

    workload: str
    framework: str
    recipe: str
    precision: str
    size: str
    device: str
    data: str
    epochs: int | None
    nodes: int
    devices: int
    batch_size_per_device: int
    why_skipped: Message | None
    machine: str | None = None
    """Where it was requested; None: the machine of the other lines."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    why: Literal["skipped", "failed", "not_run"]
    outcome: str | None = None
    """Of a failure; `running` for a run that has not ended."""
    reason: Message | None = None
    """Of a skip or a failure."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One number of devices: measured, or missing."""

    nodes: int | None
    devices: int
    batch_size_per_device: int | None
    line: Line | None
    missing: Missing | None
    baseline: Line | None
    """What `speedup` divides by; None for a baseline and for a missing case."""
    has_other_baseline: bool
    """The baseline has other software or another host: nothing nearer has fewer devices."""
    speedup: Ratio | None
    efficiency: Ratio | None
    lost_time: LostTime | None
    """Known if the efficiency is poor."""

    @property
    def count(self) -> Count:
        return self.nodes, self.devices


@dataclass(frozen=True, kw_only=True)
class Study:
    mode: Mode
    first: RunRow
    """Has what the lines share."""
    batch_size: int | None
    """Per device for weak scaling, global for strong."""
    baseline: Case
    """The first one, if lines with different software have a baseline each."""
    cases: tuple[Case, ...]
    """Ordered by number of devices, then of nodes."""


@dataclass(kw_only=True)
class _Group:
    mode: Mode
    batch_size: int | None
    lines: list[Line] = field(default_factory=list)
    failed: list[Line] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    @property
    def counts(self) -> set[Count]:
        return {_count(line.first) for line in self.lines}


def build_studies(lines: Sequence[Line], asked: Sequence[Asked] = ()) -> tuple[Study, ...]:
    """Weak scaling first, in the order of the first lines."""
    groups = [group for whole in _group(lines, asked).values() for group in _by_machine(whole)]
    studied = [group for group in groups if _is_study(group)]
    siblings: dict[Facts, set[Count]] = {}
    for group in studied:
        siblings.setdefault(_siblings(group), set()).update(group.counts)
    studies = [_build_study(group, siblings[_siblings(group)]) for group in studied]
    return tuple(sorted(studies, key=lambda study: study.mode == "strong"))


def _group(lines: Sequence[Line], asked: Sequence[Asked]) -> dict[Facts, _Group]:
    groups: dict[Facts, _Group] = {}
    for line in lines:
        row = line.first
        if row.devices is None:
            continue
        for mode, batch_size in _modes(row.devices, row.batch_size_per_device):
            group = groups.setdefault((mode, batch_size, *_facts(row)), _Group(mode=mode, batch_size=batch_size))
            (group.failed if line.estimate is None else group.lines).append(line)
    for cell in asked:
        for mode, batch_size in _modes(cell.devices, cell.batch_size_per_device):
            group = groups.setdefault((mode, batch_size, *_asked_facts(cell)), _Group(mode=mode, batch_size=batch_size))
            group.asked.append(cell)
    return groups


def _modes(devices: int, batch_size: int | None) -> tuple[tuple[Mode, int | None], ...]:
    return (("unknown", None),) if batch_size is None else (("weak", batch_size), ("strong", devices * batch_size))


def _facts(row: RunRow) -> Facts:
    """All that lines of a study share, except the machine: a run that failed early does not know its own."""
    own_name = (row.model, row.unit) if row.workload is None else None
    return (row.workload, own_name, row.dialect, row.framework, row.recipe, row.precision, row.size, row.device,
            row.data, row.epochs)  # fmt: skip


def _asked_facts(cell: Asked) -> Facts:
    return (cell.workload, None, None, cell.framework, cell.recipe, cell.precision, cell.size, cell.device,
            cell.data, cell.epochs)  # fmt: skip


def _by_machine(group: _Group) -> Iterator[_Group]:
    """A failure or a skip on one machine says nothing about another."""
    for machine in dict.fromkeys(line.first.machine for line in group.lines):
        yield _Group(
            mode=group.mode,
            batch_size=group.batch_size,
            lines=[line for line in group.lines if line.first.machine == machine],
            failed=[line for line in group.failed if _known_machines(line) <= {machine}],
            asked=[cell for cell in group.asked if cell.machine in (None, machine)],
        )


def _known_machines(line: Line) -> set[str]:
    return {run.machine for run in line.runs if run.machine is not None}


def _is_study(group: _Group) -> bool:
    """Strong scaling only if it was measured: a sweep of batch sizes has many equal global batches by chance."""
    if group.mode == "strong":
        return len({devices for _, devices in group.counts}) > 1
    wanted = {_count(line.first) for line in group.failed} | {(cell.nodes, cell.devices) for cell in group.asked}
    return len(group.counts | wanted) > 1


def _siblings(group: _Group) -> Facts:
    row = group.lines[0].first
    global_batch = group.batch_size if group.mode == "strong" else None
    name = row.workload or row.model
    return (group.mode, global_batch, name, row.dialect, row.framework, row.size, row.device, row.data, row.machine)


def _build_study(group: _Group, sibling_counts: set[Count]) -> Study:
    measured = [
        _measured(line, group.lines[at.index] if at else None, group.mode, is_other=bool(at and at.is_other))
        for line, at in zip(group.lines, find_baselines([line.runs for line in group.lines]), strict=True)
    ]
    first = min(range(len(measured)), key=lambda index: baseline_rank(group.lines[index].runs))
    cases = [*measured, *_find_missing(group, sibling_counts)]
    order = sorted(cases, key=lambda case: (case.devices, case.nodes or 0))
    return Study(
        mode=group.mode, first=group.lines[first].first, batch_size=group.batch_size, baseline=measured[first],
        cases=tuple(order),
    )  # fmt: skip


def _measured(line: Line, baseline: Line | None, mode: Mode, *, is_other: bool) -> Case:
    nodes, devices = _count(line.first)
    gain = share = lost = None
    own, base = line.known, baseline.known if baseline is not None else None
    if baseline is not None and own is not None and base is not None and baseline.first.devices:
        gain = speedup(own, base)
        share = efficiency(own, base, devices / baseline.first.devices)
        scale = baseline.first.devices / devices if mode == "strong" else 1.0
        lost = explain_lost_time(line, baseline, scale=scale) if is_poor(share) else None
    return Case(
        nodes=nodes, devices=devices, batch_size_per_device=line.first.batch_size_per_device, line=line, missing=None,
        baseline=baseline, has_other_baseline=is_other, speedup=gain, efficiency=share, lost_time=lost,
    )  # fmt: skip


def _find_missing(group: _Group, sibling_counts: set[Count]) -> list[Case]:
    """The most specific reason for each count: it failed, the plan skipped it, it was not run."""
    found: dict[Count, Missing] = {}
    for line in group.failed:
        last = line.runs[-1]
        missing = Missing(why="failed", outcome=last.outcome or "running", reason=last.why)
        found.setdefault(_count(line.first), missing)
    for cell in group.asked:
        missing = Missing(why="skipped" if cell.why_skipped else "not_run", reason=cell.why_skipped)
        found.setdefault((cell.nodes, cell.devices), missing)
    for count in sibling_counts:
        found.setdefault(count, Missing(why="not_run"))
    return [
        Case(
            nodes=nodes, devices=devices, batch_size_per_device=_batch(group, devices), line=None, missing=missing,
            baseline=None, has_other_baseline=False, speedup=None, efficiency=None, lost_time=None,
        )
        for (nodes, devices), missing in found.items()
        if (nodes, devices) not in group.counts
    ]  # fmt: skip


def _batch(group: _Group, devices: int) -> int | None:
    if group.mode != "strong" or group.batch_size is None:
        return group.batch_size
    return group.batch_size // devices if group.batch_size % devices == 0 else None


def _count(row: RunRow) -> Count:
    assert row.devices is not None
    return row.nodes, row.devices
