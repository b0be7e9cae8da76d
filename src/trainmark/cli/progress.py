"""How it goes, while it goes: a live line on a terminal, plain lines otherwise. Also decides when enough is known."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.stopping import decide, next_look
from trainmark.cli.output import UNHEARD
from trainmark.messages.message import Message
from trainmark.runfolder.files import Json
from trainmark.runfolder.records import Kind, Outcome
from trainmark.spec.suite import Measure
from trainmark.units import format_count, format_plus_minus, format_rate, format_seconds, plain

_PLAIN_PERIOD_S = 10.0


class Progress:
    """Talks on stderr, so that stdout stays data."""

    def __init__(self, *, total: int) -> None:
        self.run_id = ""
        self._total = total
        self._console = Console(stderr=True, highlight=False)
        self._is_live = self._console.is_terminal
        self._live = Live(console=self._console, refresh_per_second=4, transient=True) if self._is_live else None
        self._title = ""

    def __enter__(self) -> Progress:
        if self._live is not None:
            with contextlib.suppress(*UNHEARD):
                self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            with contextlib.suppress(*UNHEARD):
                self._live.stop()

    def begin(self, run_id: str, title: str, number: int) -> None:
        self.run_id = run_id
        self._title = plain(f"[{number}/{self._total}] {title}")
        self.line("starting", force=True)

    def line(self, text: str, *, force: bool = False) -> None:
        if self._live is not None:
            self._live.update(Text(f"{self._title}: {text}"))
        elif force:
            with contextlib.suppress(*UNHEARD):
                print(f"{self._title}: {text}", file=sys.stderr, flush=True)

    def end(self, outcome: Outcome, reason: str) -> None:
        text = Text(plain(f"{self._title}: {outcome}: {reason.splitlines()[0][:200] if reason else ''}"))
        with contextlib.suppress(*UNHEARD):
            self._console.print(text, soft_wrap=True)


class RunWatch:
    """Called with new records; keeps the steps and, if it may, asks to stop when the interval is narrow enough."""

    def __init__(self, progress: Progress, measure: Measure, unit: Callable[[], str], *, may_stop: bool) -> None:
        self._progress, self._measure, self._unit, self._may_stop = progress, measure, unit, may_stop
        self._seconds: list[float] = []
        self._samples: list[float] = []
        self._look_at = 0
        self._estimate: Estimate | None = None
        self._begin = self._last_line = time.monotonic()
        self._enough: Message | None = None
        self._metric = ("", "")

    def __call__(self, new: list[Json]) -> Message | None:
        for record in new:
            if record["kind"] == Kind.STEP:
                self._seconds.append(float(record["seconds"]))
                self._samples.append(float(record["samples"]))
            elif record["kind"] == Kind.EVAL and self._metric[0] in ("", record["metric"]):
                epoch = "" if record.get("epoch") is None else f" after epoch {record['epoch']:g}"
                text = plain(f"{record['metric']} {record['value']:.3f}{epoch}")
                self._metric = (record["metric"], text)  # a workload's first metric is its main one
        self._look()
        due = time.monotonic() - self._last_line > _PLAIN_PERIOD_S
        self._progress.line(self._describe(), force=due)
        self._last_line = time.monotonic() if due else self._last_line
        return self._enough

    def _look(self) -> None:
        """At geometrically spaced step counts: looking often would stop too early by chance."""
        if len(self._seconds) < max(self._look_at, 1) or self._enough:
            return
        self._look_at = next_look(len(self._seconds))
        decision = decide(self._seconds, self._samples, target=self._measure.target_ci)
        self._estimate = decision.estimate
        if self._may_stop and sum(self._seconds) >= self._measure.min_seconds:
            self._enough = decision.reason if decision.stop else None

    def _describe(self) -> str:
        took = format_seconds(time.monotonic() - self._begin)
        if not self._seconds:
            return f"preparing, {took}"
        parts = [format_count(len(self._seconds), "steps"), took]
        if self._estimate is not None:
            rate = format_rate(self._estimate.value, self._unit())
            parts.append(f"{rate} {format_plus_minus(self._estimate.relative_half_width)}")
        if self._metric[1]:
            parts.append(self._metric[1])
        return ", ".join(parts)
