"""Starts a run, watches it and ends it: the only place that owns processes.

It reads records as they appear: those that our worker writes, or those that a command of the user marks or prints
(`Source`). A run ends early when its observer has seen enough (a `stop` file tells the worker, which stops after the
current block of steps), when it exceeds its time limit, or when it hangs: no step for many times the usual step.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Protocol

from trainmark.launch import processes
from trainmark.launch.endings import Ending, decide
from trainmark.launch.job import Command
from trainmark.launch.processes import Root
from trainmark.launch.rank_command import LEASE
from trainmark.launch.worker_source import WorkerSource
from trainmark.messages.endings import controller_failed, interrupted_steps_kept, timed_out
from trainmark.messages.message import Message
from trainmark.redaction import Redactor
from trainmark.runfolder.ending import write_exit
from trainmark.runfolder.files import (
    COMMAND_FILE,
    LEASE_FILE,
    OUTPUT_FILE,
    SCHEMA,
    STOP_FILE,
    Json,
    write_json,
    write_text,
)
from trainmark.runfolder.records import Outcome

Observer = Callable[[list[Json]], Message | None]
"""Gets the new records; returns a reason to stop the run, or None."""

_POLL_S = 0.1
_LEASE_EVERY_S = 1.0


class Source(Protocol):
    """Where the records of a run come from while it runs."""

    def begin(self) -> None:
        """The processes have started: silence counts from now."""

    def read_new(self) -> list[Json]:
        """The records since the last call."""

    def quiet_s(self) -> tuple[float, float]:
        """Seconds without any sign of life, and the limit for them."""

    def explain_silence(self, silence_s: float) -> Message:
        """Called once, when the limit is exceeded: what is wrong. Writes the stacks of all processes to the folder."""

    def close(self, returncode: int | None) -> dict[int, Json]:
        """Called when all processes have ended; the `run_end` of each rank."""


def supervise(
    folder: Path,
    run_id: str,
    commands: Sequence[Command],
    *,
    launcher: str,
    timeout_s: float | None,
    observe: Observer,
    source: Source | None = None,
) -> Ending:
    """Run `commands` in parallel until they end; write command.json and exit.json. Ctrl-C ends them and is raised."""
    source = source or WorkerSource(folder)
    redactor = Redactor(folder.parent)
    write_json(folder / COMMAND_FILE, _describe(commands, launcher, redactor), is_private=True)
    for name, text in (item for command in commands for item in command.files.items()):
        write_text(folder / name, text)
    started, begin_s = time.time(), time.monotonic()
    # Opened for appending: Slurm and the nodes of torchrun write to the same file.
    with (folder / OUTPUT_FILE).open("ab") as output, (folder / OUTPUT_FILE).open("ab") as lock:
        _hold(lock)
        roots: list[Root] = []
        # A failure of the controller says nothing about the run itself.
        ended_by: tuple[Outcome, Message] | None = (Outcome.KILLED, controller_failed(error=None))
        grace_s = processes.GRACE_S
        watch = _Watch(folder, source, observe, roots)
        try:
            roots.extend(processes.Root(command, output=output) for command in commands)
            ended_by = watch.until_end(timeout_s)
        except KeyboardInterrupt as interrupt:
            ended_by = Outcome.KILLED, interrupted_steps_kept(signal=str(interrupt) or "Ctrl-C")
            grace_s = processes.PREEMPTION_S if str(interrupt) else grace_s
            raise
        except Exception as error:
            ended_by = Outcome.KILLED, controller_failed(error=f"{type(error).__name__}: {error}"[:500])
            raise
        finally:
            with _undisturbed():
                code = processes.returncode(roots)
                processes.end(run_id, roots, grace_s=grace_s)
                code = processes.returncode(roots) if code is None else code
                run_ends = source.close(code)
                ending = _without_secrets(decide(run_ends=run_ends, returncode=code, ended_by=ended_by), redactor)
                _write_exit(folder, ending, code, started, wall_s=time.monotonic() - begin_s)
    return ending


def _hold(file: IO[bytes]) -> None:
    """Lock the file while the controller lives: this is how readers tell a live run from a dead one.

    Processes of the run do not inherit the lock. NFS wants a file opened for writing for an exclusive lock. Some file
    systems have no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay signals: clean-up takes seconds, and a second Ctrl-C must not leave the run without exit.json.

    A signal that arrives meanwhile takes effect afterwards: a pre-emption sends only one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    earlier = {number: signal.signal(number, lambda number, _: came.append(number)) for number in signals}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


class _Watch:
    def __init__(self, folder: Path, source: Source, observe: Observer, roots: Sequence[Root]) -> None:
        self._folder = folder
        self._stop = folder / STOP_FILE
        self._source = source
        self._observe = observe
        self._roots = roots
        self._next_lease_s = 0.0

    def until_end(self, timeout_s: float | None) -> tuple[Outcome, Message] | None:
        """One process that fails ends the run: the others would wait for it forever."""
        self._wait_in_queue()
        self._source.begin()
        began = time.monotonic()
        while processes.returncode(self._roots) is None:
            self._sleep()
            self._look()
            if timeout_s is not None and time.monotonic() - began > timeout_s:
                return Outcome.TIMEOUT, timed_out(seconds=timeout_s)
            silence_s, limit_s = self._source.quiet_s()
            if silence_s > limit_s:
                return Outcome.HANG, self._source.explain_silence(silence_s)
        return None

    def _wait_in_queue(self) -> None:
        """Time limits count from the start of the job."""
        files = [root.command.started_file for root in self._roots if root.command.started_file is not None]
        while processes.returncode(self._roots) is None and not all(path.exists() for path in files):
            self._sleep()

    def _sleep(self) -> None:
        time.sleep(_POLL_S)
        if time.monotonic() >= self._next_lease_s and any(LEASE in root.command.environment for root in self._roots):
            self._next_lease_s = time.monotonic() + _LEASE_EVERY_S
            (self._folder / LEASE_FILE).write_text(str(time.monotonic_ns()), encoding="ascii")

    def _look(self) -> None:
        new = self._source.read_new()
        if not new:
            return
        reason = self._observe(new)
        if reason is not None and not self._stop.exists():
            write_json(self._stop, reason.to_json())


def _describe(commands: Sequence[Command], launcher: str, redactor: Redactor) -> Json:
    first = commands[0]
    return {
        "schema": SCHEMA,
        "launcher": launcher,
        "argv": list(redactor.words(first.argv)),
        "environment": redactor.variables(first.environment),
        "argv_of_nodes": [list(redactor.words(command.argv)) for command in commands],
        "hosts": [os.uname().nodename],
        "controller_pid": os.getpid(),
    }


def _without_secrets(ending: Ending, redactor: Redactor) -> Ending:
    """A reason may quote what the command printed."""
    return replace(ending, reason=Message.from_reason(redactor.document(ending.reason.to_reason())))


def _write_exit(folder: Path, ending: Ending, returncode: int | None, started: float, *, wall_s: float) -> None:
    """`wall_s` is from the monotonic clock: the time of day may have been set meanwhile."""
    document = {"outcome": ending.outcome, **ending.reason.to_reason(), "look_at": ending.look_at}
    times = {"started_unix_s": started, "ended_unix_s": time.time(), "wall_s": wall_s}
    write_exit(folder, {**document, "returncode": returncode, **times})
