"""A listener of the controller that keeps what it is told, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainmark.controller.listener import PreflightReport, RunEnd, RunStatus
from trainmark.plan.estimate import Duration
from trainmark.runfolder.records import Outcome


@dataclass
class KeepingListener:
    said: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    statuses: list[RunStatus] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)

    def show_preflight(self, report: PreflightReport) -> None:
        self.said.extend(finding.what for finding in report.findings)

    def begin_run(self, title: str, *, number: int, total: int, left: Duration | None) -> None:
        self.titles.append(f"[{number}/{total}] {title}")

    def update_run(self, status: RunStatus) -> None:
        self.statuses.append(status)

    def end_run(self, end: RunEnd) -> None:
        self.outcomes.append(end.outcome)
