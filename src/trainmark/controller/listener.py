"""What the controller reports while runs are made. It prints nothing itself: the command line or a test listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainmark.analyse.estimate import Estimate
    from trainmark.launch.preflight import Finding
    from trainmark.runfolder.records import Outcome


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    metric: str
    value: float
    epoch: float | None


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """How far the current run is."""

    num_steps: int
    elapsed_s: float
    unit: str
    """Of the samples: `images`, `clips`, `samples`."""
    estimate: Estimate | None = None
    """Throughput at the last look; None before the first."""
    evaluation: Evaluation | None = None
    """The latest one of the workload's main metric."""


@dataclass(frozen=True, kw_only=True)
class PreflightReport:
    """What the machines of a run answered before it started."""

    findings: Sequence[Finding]
    num_answers: int
    num_expected: int

    @property
    def is_fatal(self) -> bool:
        return any(finding.is_fatal for finding in self.findings)


class Listener(Protocol):
    def say(self, text: str) -> None:
        """One line for the user, such as what is skipped or resumed."""

    def show_preflight(self, report: PreflightReport) -> None:
        """Called for each launcher, also when nothing is wrong."""

    def begin_run(self, title: str, *, number: int, total: int) -> None:
        """The run folder exists and the processes are about to start."""

    def update_run(self, status: RunStatus) -> None:
        """New records have arrived."""

    def end_run(self, outcome: Outcome, reason: str) -> None:
        """The processes have ended and exit.json is written."""
