"""Bytes that go by: a bar on a terminal, a plain line now and then otherwise. Talks on stderr."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import TransferSpeedColumn as SpeedColumn

from trainmark.cli.output import talk
from trainmark.units import format_bytes, plain

_PLAIN_PERIOD_S = 10.0


class ByteProgress:
    """One bar for each stage; a stage is told by its number, so that its title may count along."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            DownloadColumn(binary_units=True),
            SpeedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._task: TaskID | None = None
        self._stage = 0
        self._last_line = time.monotonic()

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
        elif time.monotonic() - self._last_line > _PLAIN_PERIOD_S:
            self._last_line = time.monotonic()
            of_all = "" if num_total is None else f" of {format_bytes(num_total)}"
            talk(f"{title}: {format_bytes(num_done)}{of_all}")
