"""The answer of `check`: one finding per cell and metric, and what all of them together mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainmark.analyse.tolerance import Metric
from trainmark.messages.message import Message


class Status(StrEnum):
    """The worst first."""

    FAILED = "failed"
    """A run did not end well."""
    REGRESSION = "regression"
    NOT_COMPARABLE = "not_comparable"
    NOT_MEASURED = "not_measured"
    """In the baseline, but not in the store."""
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"  # noqa: S105 # not a password
    NEW = "new"
    """Measured, but not in the baseline."""
    SKIPPED = "skipped"
    """A baseline of another machine, beside one of this machine."""


_EXIT_CODES = {
    Status.FAILED: 1,
    Status.REGRESSION: 3,
    Status.NOT_COMPARABLE: 4,
    Status.NOT_MEASURED: 4,
    Status.INCONCLUSIVE: 4,
    Status.PASS: 0,
}
NOTHING_JUDGED = 4
_ORDER = list(Status)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found about one metric of a cell, or about a cell without a metric that could be judged."""

    metric: Metric | None
    status: Status
    why: Message
    before: float | None = None
    """In the baseline."""
    now: float | None = None
    ratio: float | None = None
    """`now` divided by `before`."""
    ci95: tuple[float, float] | None = None
    """Of the ratio; only throughput has one."""
    tolerance: float | None = None
    num_runs: tuple[int, int] = (0, 0)
    """In the baseline, and now."""
    spread: float | None = None
    """Relative standard deviation between runs, as far as it is known; only of throughput."""


@dataclass(frozen=True, kw_only=True)
class CellResult:
    name: str
    work: str
    """Content hash of what is measured."""
    unit: str
    """Of the throughput, without the per second."""
    findings: tuple[Finding, ...]
    run_ids: tuple[str, ...] = ()
    """The runs that were judged."""
    wall_s: float = 0.0
    """How long they took."""
    notes: tuple[Message, ...] = ()
    """What a reader should know beside the findings."""

    @property
    def status(self) -> Status:
        return min((finding.status for finding in self.findings), key=_ORDER.index)


@dataclass(frozen=True, kw_only=True)
class GateResult:
    cells: tuple[CellResult, ...]

    @property
    def status(self) -> Status:
        """Of the worst cell; never a pass where nothing was judged."""
        worst = min((cell.status for cell in self.cells), key=_ORDER.index, default=Status.NOT_MEASURED)
        return worst if worst in _EXIT_CODES else Status.NOT_MEASURED

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.status]

    def with_status(self, status: Status) -> tuple[CellResult, ...]:
        return tuple(cell for cell in self.cells if cell.status is status)


def sort_cells(cells: Sequence[CellResult]) -> tuple[CellResult, ...]:
    """The worst first, then by name."""
    return tuple(sorted(cells, key=lambda cell: (_ORDER.index(cell.status), cell.name)))
