"""Starts a run, watches it and ends it: the only place that owns processes.

Watching reads records as they appear: those that our worker writes, or that a command of the user's prints or marks
(`Source`). A run is ended early when its observer says enough is known (by a `stop` file, which the worker obeys at the
next block of steps), when it takes too long, or when no step has come for many times the usual step: a hang is told by
silence, not by a fixed time-out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from trainmark import records
from trainmark.launch import processes
from trainmark.launch.heartbeat import WorkerSource
from trainmark.launch.job import Command
from trainmark.launch.outcome import Ending, decide
from trainmark.records import Json, Outcome

Observer = Callable[[list[Json]], str | None]
"""Gets the new records; a reason asks the run to stop."""

_POLL_S = 0.1


class Source(Protocol):
    """Where the records of a run come from while it goes on."""

    def read_new(self) -> list[Json]:
        """Those since the last call."""

    def quiet_s(self) -> tuple[float, float]:
        """How long there was no sign of life, and how long that is normal."""

    def explain_silence(self, silence_s: float) -> str:
        """Called once, when it was too long: what is wrong, with the stacks of all processes put into the folder."""

    def close(self, returncode: int | None) -> dict[int, Json]:
        """All processes have ended: what each of them said of its end, by rank."""


def supervise(
    folder: Path,
    run_id: str,
    command: Command,
    *,
    launcher: str,
    timeout_s: float,
    observe: Observer,
    source: Source | None = None,
) -> Ending:
    """Runs `command` to its end; writes command.json and exit.json. Ctrl-C ends the run, then goes on up."""
    source = source or WorkerSource(folder)
    records.write_json(folder / records.COMMAND_FILE, _describe(command, launcher))
    started = time.time()
    with (folder / records.OUTPUT_FILE).open("wb") as output, (folder / records.OUTPUT_FILE).open("rb") as lock:
        # Held while the controller lives; not inherited, so that readers tell a live run from a dead one by it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = processes.start(command, output=output)
        ended_by: Outcome | None = Outcome.FAILED
        why = "the controller failed"
        watch = _Watch(folder, source, observe)
        try:
            ended_by, why = watch.until_end(root, timeout_s)
        except KeyboardInterrupt:
            ended_by, why = Outcome.KILLED, "interrupted by Ctrl-C; the steps so far are kept"
            raise
        finally:
            with _undisturbed():
                processes.end(run_id, root)
                run_ends = source.close(root.poll())
                ending = decide(run_ends=run_ends, returncode=root.poll(), ended_by=ended_by, why=why)
                _write_exit(folder, ending, root.poll(), started)
    return ending


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Cleaning up takes seconds, and an impatient second Ctrl-C must not leave the run without its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


class _Watch:
    def __init__(self, folder: Path, source: Source, observe: Observer) -> None:
        self._stop = folder / records.STOP_FILE
        self._source = source
        self._observe = observe

    def until_end(self, root: subprocess.Popen[bytes], timeout_s: float) -> tuple[Outcome | None, str]:
        deadline = time.monotonic() + timeout_s
        while root.poll() is None:
            time.sleep(_POLL_S)
            self._look()
            if time.monotonic() > deadline:
                return (
                    Outcome.TIMEOUT,
                    f"took longer than {timeout_s:.0f} s; raise --timeout-s if that is normal for it",
                )
            silence_s, patience_s = self._source.quiet_s()
            if silence_s > patience_s:
                return Outcome.HANG, self._source.explain_silence(silence_s)
        return None, ""

    def _look(self) -> None:
        new = self._source.read_new()
        if not new:
            return
        reason = self._observe(new)
        if reason is not None and not self._stop.exists():
            beside = self._stop.with_suffix(".part")
            beside.write_text(reason, encoding="utf-8")
            beside.replace(self._stop)


def _describe(command: Command, launcher: str) -> Json:
    return {
        "schema": records.SCHEMA,
        "launcher": launcher,
        "argv": list(command.argv),
        "environment": dict(command.environment),
        "hosts": [os.uname().nodename],
        "controller_pid": os.getpid(),
    }


def _write_exit(folder: Path, ending: Ending, returncode: int | None, started: float) -> None:
    ended = time.time()
    document = {"schema": records.SCHEMA, **asdict(ending), "returncode": returncode}
    times = {"started_unix_s": started, "ended_unix_s": ended, "wall_s": ended - started}
    records.write_json(folder / records.EXIT_FILE, {**document, **times})
