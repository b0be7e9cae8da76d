"""Shows how runs, downloads and imports go: a live line on a terminal, plain lines otherwise. Writes to stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from trainmark.cli.output import UNHEARD, stderr_console, talk
from trainmark.controller.listener import PreflightReport, RunStatus
from trainmark.runfolder.records import Outcome
from trainmark.units import (
    format_bytes,
    format_count,
    format_interval,
    format_plus_minus,
    format_rate,
    format_seconds,
    plain,
)

if TYPE_CHECKING:
    from trainmark.analyse.estimate import Estimate

_PLAIN_PERIOD_S = 10.0


class RunProgress:
    """The controller's listener on the command line."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._title = ""
        self._last_line_s = 0.0

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            with contextlib.suppress(*UNHEARD):
                self._live.stop()

    def say(self, text: str) -> None:
        talk(text)

    def show_preflight(self, report: PreflightReport) -> None:
        from trainmark.report.layout import print_rows

        rows = []
        for finding in sorted(report.findings, key=lambda finding: not finding.is_fatal):
            what = finding.what if finding.is_fatal else f"(note) {finding.what}"
            rows.append([plain(text) for text in (finding.where, what, finding.hint)])
        if rows:
            print_rows(("where", "problem", "hint"), rows, stderr_console(), is_right=[False] * 3)
        if not report.is_fatal:
            talk(f"preflight: {report.num_answers} of {format_count(report.num_expected, 'processes')} answered")

    def begin_run(self, title: str, *, number: int, total: int) -> None:
        if self._live is None and self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            with contextlib.suppress(*UNHEARD):
                self._live.start()
        self._title = plain(f"[{number}/{total}] {title}")
        self._last_line_s = time.monotonic()
        self._line("starting", is_due=True)

    def update_run(self, status: RunStatus) -> None:
        is_due = time.monotonic() - self._last_line_s > _PLAIN_PERIOD_S
        if is_due:
            self._last_line_s = time.monotonic()
        self._line(describe_status(status), is_due=is_due)

    def end_run(self, outcome: Outcome, reason: str) -> None:
        text = Text(plain(f"{self._title}: {outcome}: {reason.splitlines()[0][:200] if reason else ''}"))
        with contextlib.suppress(*UNHEARD):
            self._console.print(text, soft_wrap=True)

    def _line(self, text: str, *, is_due: bool) -> None:
        if self._live is not None:
            self._live.update(Text(f"{self._title}: {text}"))
        elif is_due:
            talk(f"{self._title}: {text}")


def describe_status(status: RunStatus) -> str:
    elapsed = format_seconds(status.elapsed_s)
    if not status.num_steps:
        return f"preparing, {elapsed}"
    parts = [format_count(status.num_steps, "steps"), elapsed]
    if status.estimate is not None:
        parts.append(_say_speed(status.estimate, status.unit))
    if status.evaluation is not None:
        epoch = "" if status.evaluation.epoch is None else f" after epoch {status.evaluation.epoch:g}"
        parts.append(plain(f"{status.evaluation.metric} {status.evaluation.value:.3f}{epoch}"))
    return ", ".join(parts)


def _say_speed(estimate: Estimate, unit: str) -> str:
    if estimate.is_too_noisy:
        return f"too noisy so far ({format_interval(estimate.spread)} {unit}/s)"
    return f"{format_rate(estimate.value, unit)} {format_plus_minus(estimate.relative_half_width)}"


class ByteProgress:
    """One bar for each stage; a stage is identified by its number, so that its title may change."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._task: TaskID | None = None
        self._stage = 0
        self._last_line_s = time.monotonic()

    def __enter__(self) -> ByteProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, title: str, num_done: int, num_total: int | None = None, *, stage: int = 0) -> None:
        if self._bar is not None:
            if self._task is None or stage != self._stage:
                self._task, self._stage = self._bar.add_task(escape(plain(title)), total=num_total), stage
            self._bar.update(self._task, description=escape(plain(title)), completed=num_done, total=num_total)
        elif time.monotonic() - self._last_line_s > _PLAIN_PERIOD_S:
            self._last_line_s = time.monotonic()
            of_all = "" if num_total is None else f" of {format_bytes(num_total)}"
            talk(f"{title}: {format_bytes(num_done)}{of_all}")


@contextlib.contextmanager
def file_progress(num_files: int, num_known: int) -> Iterator[Any]:
    """For `import`: a bar on a terminal, one line otherwise. Yields a function to be called once for each file."""
    if not sys.stderr.isatty():
        known = f", {num_known} already imported" if num_known else ""
        talk(f"reading {format_count(num_files, 'files')}{known}")
        yield lambda: None
        return
    columns = (TextColumn("reading logs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=num_files)
        yield lambda: progress.advance(bar)
