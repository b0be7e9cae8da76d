"""Writes what was observed in this process into the run folder.

`rank<k>.observed.jsonl` has the steps, one file per process that trains; `observer.jsonl` has a few lines of all
processes: that they were seen, which framework they imported, what failed. Lines are written whole, at the latest with
the first step after 0.1 s, so that a kill loses no more than that: a longer step is written when it ends. Seldom, since
whoever writes lets go of Python's lock and waits for the script's other threads, such as a loader's. A failure to write
ends the recording, never the script.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import time
from typing import Callable

_RANKS = ("RANK", "PADDLE_TRAINER_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""As in trainmark.rank_environment, which an interpreter without trainmark cannot import."""
_MOST_PROCESSES = 4096
_MAX_NOTES_BYTES = 65536
_MAX_TEXT = 300
_FLUSH_S = 0.1


class Recorder:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._failures: set[str] = set()
        self._kept: list[object] = []
        self._at_exit: list[Callable[[], None]] = []
        self._after_fork: list[Callable[[], None]] = []
        self._reset()
        atexit.register(self._close)
        os.register_at_fork(after_in_child=self._forget)

    def _reset(self) -> None:
        self._file: int | None = None
        self._identity: tuple[int, int] | None = None
        self._lines: list[str] = []
        self._written_s = 0.0
        self._has_failed = False

    def on_exit(self, action: Callable[[], None]) -> None:
        self._at_exit.append(action)

    def on_fork(self, action: Callable[[], None]) -> None:
        """In the child, which has steps of its own."""
        self._after_fork.append(action)

    def _forget(self) -> None:
        # The descriptor stays open: closing it would release the lock of the parent on some file systems.
        self._reset()
        for action in self._after_fork:
            self.guard("fork", action)

    def keep_forever(self, value: object) -> None:
        """For objects of the device in a forked child: to destroy one there, even at its exit, aborts the process."""
        self._kept.append(value)
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))

    def is_due(self, now: float) -> bool:
        """Whether a line would be written at once; `now` is of the monotonic clock."""
        return now - self._written_s > _FLUSH_S

    def line(self, text: str, now: float) -> None:
        """One record or several as JSON, without the last line end."""
        if self._has_failed:
            return
        self._lines.append(text)
        if self.is_due(now):
            self._written_s = now
            self.flush()

    def record(self, **values: object) -> None:
        self.line(json.dumps(values, separators=(",", ":")), time.perf_counter())

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if not lines or self._has_failed:
            return
        try:
            if self._file is None or not self._is_own(self._file):
                self._file = _open_own_file(self._folder)
                self._identity = _identify(self._file)
            os.write(self._file, ("\n".join(lines) + "\n").encode())
        except OSError:
            self._has_failed = True

    def _is_own(self, file: int) -> bool:
        """A daemon closes all descriptors, and the next file that the script opens may get the number of ours."""
        try:
            return _identify(file) == self._identity
        except OSError:
            return False

    def note(self, kind: str, what: str) -> None:
        """A line for the controller, about this process."""
        try:
            path = os.path.join(self._folder, "observer.jsonl")
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                if os.fstat(file).st_size < _MAX_NOTES_BYTES:
                    line = json.dumps({"kind": kind, "pid": os.getpid(), "what": what[:_MAX_TEXT]})
                    os.write(file, line.encode() + b"\n")
            finally:
                os.close(file)
        except Exception:  # noqa: S110 - there is nobody to tell
            pass

    def fail(self, where: str, error: BaseException) -> None:
        """Something of ours failed: noted once, and the script continues."""
        if where not in self._failures:
            self._failures.add(where)
            self.note("failed", f"{where}: {type(error).__name__}: {error}")

    def guard(self, where: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self.fail(where, error)

    @property
    def has_steps(self) -> bool:
        return self._file is not None

    def _close(self) -> None:
        for action in self._at_exit:
            self.guard("exit", action)
        self.guard("exit", self.flush)


def _identify(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    return found.st_dev, found.st_ino


def _open_own_file(folder: str) -> int:
    """The first number from the launcher's rank on that no running process holds, as `trainmark.mark` does."""
    ranks = [os.environ[name] for name in _RANKS if os.environ.get(name, "").isdigit()]
    first = int(ranks[0]) if ranks else 0
    for rank in range(first, first + _MOST_PROCESSES):
        path = os.path.join(folder, f"rank{rank}.observed.jsonl")
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        except OSError:
            pass  # a file system without locks
        return file
    raise OSError("too many processes")
