"""What the controller reports while runs are made. It prints nothing itself: the command line or a test listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainmark.analyse.estimate import Estimate
    from trainmark.launch.preflight import Finding
    from trainmark.plan.estimate import Duration
    from trainmark.runfolder.records import Outcome


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    metric: str
    value: float
    epoch: float | None


class RunPhase(StrEnum):
    """What the processes of a run are doing, in the order of a run."""

    STARTING = "starting"
    IMPORTING = "importing"
    """The framework."""
    BUILDING = "building"
    """Model, optimizer and data."""
    FIRST_STEP = "first step"
    WARMING_UP = "warming up"
    MEASURING = "measuring"
    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "writing a checkpoint"
    COMPILING = "compiling"
    """For a batch of shapes that were not there before."""
    COMMUNICATION = "measuring communication"
    ENDING = "ending"
    RUNNING = "running"
    """A command, of whose phases nothing is known."""


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """How far the current run is."""

    phase: RunPhase
    num_steps: int
    unit: str
    """Of the samples: `images`, `clips`, `samples`."""
    what: str | None = None
    """More about the phase: the framework that is imported, whether the model is compiled."""
    estimate: Estimate | None = None
    """Throughput at the last look; None before the first."""
    evaluation: Evaluation | None = None
    """The latest one of the workload's main metric."""


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    run_id: str
    outcome: Outcome
    reason: str
    estimate: Estimate | None
    unit: str


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

    def begin_run(self, title: str, *, number: int, total: int, left: Duration | None) -> None:
        """The run folder exists and the processes are about to start. `left`: time for this run and those after it."""

    def update_run(self, status: RunStatus) -> None:
        """New records have arrived."""

    def end_run(self, end: RunEnd) -> None:
        """The processes have ended and exit.json is written."""
