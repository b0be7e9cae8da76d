"""Shows how runs, downloads and imports go: a live line on a terminal, plain lines otherwise. Writes to stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
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
from trainmark.controller.listener import PreflightReport, RunEnd, RunPhase, RunStatus
from trainmark.units import (
    format_bytes,
    format_count,
    format_interval,
    format_plus_minus,
    format_range_of_seconds,
    format_rate,
    format_seconds,
    plain,
)

if TYPE_CHECKING:
    from trainmark.analyse.estimate import Estimate
    from trainmark.plan.estimate import Duration

_PLAIN_PERIOD_S = 10.0
_BAR_WIDTH = 20


class RunProgress:
    """The controller's listener on the command line: two live lines on a terminal, else a line every ten seconds."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._shown = _Shown()
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

    def begin_run(self, title: str, *, number: int, total: int, left: Duration | None) -> None:
        self._shown.begin(plain(title), number=number, total=total, left=left)
        if self._live is None and self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True, get_renderable=self._render)
            with contextlib.suppress(*UNHEARD):
                self._live.start()
        self._last_line_s = time.monotonic()
        if self._live is None:
            talk(f"{self._shown.title}: {describe_status(None)}{self._shown.say_left(', ')}")

    def update_run(self, status: RunStatus) -> None:
        earlier = RunPhase.STARTING if self._shown.status is None else self._shown.status.phase
        has_new_phase = status.phase is not earlier
        self._shown.status = status
        if self._live is None and (has_new_phase or time.monotonic() - self._last_line_s > _PLAIN_PERIOD_S):
            self._last_line_s = time.monotonic()
            talk(f"{self._shown.title}: {describe_status(status)}, {format_seconds(self._shown.elapsed_s)}")

    def end_run(self, end: RunEnd) -> None:
        speed = "" if end.estimate is None else f" {_say_speed(end.estimate, end.unit)},"
        why = end.reason.splitlines()[0][:200] if end.reason else ""
        took = format_seconds(self._shown.elapsed_s)
        with contextlib.suppress(*UNHEARD):
            self._console.print(
                Text(plain(f"{self._shown.title}: {end.outcome}:{speed} {took}: {why}".rstrip(": "))), soft_wrap=True
            )

    def _render(self) -> Group:
        return self._shown.render(self._console.width)


class _Shown:
    """What the live lines say; they are drawn again four times a second, so that time is seen to pass."""

    def __init__(self) -> None:
        self.title = ""
        self.status: RunStatus | None = None
        self._number = self._total = 0
        self._left: Duration | None = None
        self._begin_s = time.monotonic()

    def begin(self, title: str, *, number: int, total: int, left: Duration | None) -> None:
        self.title = f"[{number}/{total}] {title}"
        self.status = None
        self._number, self._total, self._left, self._begin_s = number, total, left, time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begin_s

    def say_left(self, before: str) -> str:
        """about 2 to 4 min left; nothing where nobody knows"""
        if self._left is None:
            return ""
        low_s, high_s = (max(0.0, bound - self.elapsed_s) for bound in (self._left.low_s, self._left.high_s))
        return f"{before}{format_range_of_seconds(low_s, high_s)} left" if high_s else ""

    def render(self, width: int) -> Group:
        """Each line is cut at the width of the terminal: a folded live line leaves its remains behind."""
        num_done = self._number - 1
        filled = round(_BAR_WIDTH * num_done / self._total) if self._total else 0
        bar = "━" * filled + "─" * (_BAR_WIDTH - filled)
        runs = f"{num_done} of {format_count(self._total, 'runs')} done"
        now = f"{describe_status(self.status)}, {format_seconds(round(self.elapsed_s))}"
        room = max(0, width - cell_len(now) - 2)
        lines = (f"{bar} {runs}{self.say_left(', ')}", f"{shorten(self.title, room)}: {now}")
        return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))


def shorten(text: str, width: int) -> str:
    """The beginning of a text, with an ellipsis where something was left out."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def describe_status(status: RunStatus | None) -> str:
    """measuring, 812 steps, 25.1 images/s ±0.4%"""
    if status is None:
        return RunPhase.STARTING
    parts = [plain(" ".join(filter(None, (status.phase, status.what))))]
    if status.num_steps:
        parts.append(format_count(status.num_steps, "steps"))
    if status.estimate is not None:
        parts.append(_say_speed(status.estimate, status.unit))
    if status.evaluation is not None:
        epoch = "" if status.evaluation.epoch is None else f" after epoch {status.evaluation.epoch:g}"
        parts.append(plain(f"{status.evaluation.metric} {status.evaluation.value:.3f}{epoch}"))
    return ", ".join(parts)


def _say_speed(estimate: Estimate, unit: str) -> str:
    if estimate.is_too_noisy:
        return f"too noisy ({format_interval(estimate.spread)} {unit}/s)"
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
