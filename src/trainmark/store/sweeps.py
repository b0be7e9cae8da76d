"""Sweeps that were started here: one small file each, beside the runs. Folders of a store are runs and nothing else.

    .sweep-<id>.json   what was planned and what was left out, when it began, and whether it came to its end
    .sweep-<id>.lock   locked by the controller as long as it lives; the kernel lets go of it however it dies

Which runs are done is not written there: the run folders say it, each with the id of its sweep.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trainmark.errors import StoreError
from trainmark.messages.message import Message
from trainmark.runfolder.files import SCHEMA, Json, read_json, write_json
from trainmark.runfolder.values import as_object

_PREFIX = ".sweep-"
_ID = re.compile(r"[0-9A-Za-z-]{1,128}")
_LOCK_TRIES = 10
_LOCK_WAIT_S = 0.02
"""`plan` looks for a living controller by taking the lock for an instant; that must not turn a `run` away."""


@dataclass(frozen=True, kw_only=True)
class SweepRecord:
    id: str
    content: str
    started_unix_s: float
    host: str

    @property
    def started(self) -> str:
        """For a person, in their own time zone."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.started_unix_s))


class HeldSweep:
    """A sweep that belongs to this process until it is released."""

    def __init__(self, record: SweepRecord, path: Path, lock: IO[bytes]) -> None:
        self.record = record
        self._path, self._lock = path, lock

    def finish(self) -> None:
        """All its runs were made: the same command then begins a new one."""
        _close(self._path, "finished")

    def abandon(self) -> None:
        """Somebody wants to start anew: it is not continued any more."""
        _close(self._path, "abandoned")

    def release(self) -> None:
        self._lock.close()


class Sweeps:
    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, content: str, *, planned: Sequence[Json], skipped: Sequence[Json], settings: Json) -> HeldSweep:
        """The lock comes first: nobody ever sees a new sweep without its living controller."""
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        sweep_id = f"{stamp}-{content}-{secrets.token_hex(2)}"
        path = self._path(sweep_id)
        started, host = time.time(), os.uname().nodename
        document = {
            "schema": SCHEMA,
            "content": content,
            "started_unix_s": started,
            "host": host,
            "state": "open",
            "settings": settings,
            "planned": list(planned),
            "skipped": list(skipped),
        }
        try:
            lock = _take_lock(path.with_suffix(".lock"))
            assert lock is not None
            write_json(path, document)
        except OSError as error:
            raise _cannot_write(path, error) from error
        record = SweepRecord(id=sweep_id, content=content, started_unix_s=started, host=host)
        return HeldSweep(record, path, lock)

    def take_up(self, content: str) -> HeldSweep | None:
        """The newest one that was left unfinished and that nobody works at."""
        return next(iter(self._take(content, most=1)), None)

    def abandon(self, content: str) -> None:
        for held in self._take(content):
            held.abandon()
            held.release()

    def find(self, content: str) -> SweepRecord | None:
        """The one that `take_up` would take; nothing is changed."""
        held = self.take_up(content)
        if held is not None:
            held.release()
        return held.record if held is not None else None

    def read_cells(self, sweep_id: str) -> list[tuple[Json, Message | None]]:
        """What a sweep asked for, in whatever state it is; with the reason for each cell that was left out.

        Nothing where the file is absent, not ours or of an older program: a store may come from a stranger.
        """
        document = (read_json(self._path(sweep_id)) if _ID.fullmatch(sweep_id) else None) or {}
        found: list[tuple[Json, Message | None]] = []
        for name in ("planned", "skipped"):
            entries = document.get(name)
            for entry in entries if isinstance(entries, list) else ():
                cell = entry.get("cell") if isinstance(entry, dict) else None
                if isinstance(cell, dict):
                    found.append((cell, Message.from_reason(as_object(entry)) if name == "skipped" else None))
        return found

    def _take(self, content: str, *, most: int | None = None) -> list[HeldSweep]:
        taken: list[HeldSweep] = []
        for record in self._open_ones(content):
            path, lock = self._path(record.id), None
            with contextlib.suppress(OSError):  # a store that can only be read has nothing to go on with
                lock = _take_lock(path.with_suffix(".lock"))
            if lock is None:
                continue
            if _read(path, content) is None:  # its controller came to the end between our look and the lock
                lock.close()
                continue
            taken.append(HeldSweep(record, path, lock))
            if len(taken) == most:
                break
        return taken

    def _open_ones(self, content: str) -> list[SweepRecord]:
        found = (_read(path, content) for path in self._root.glob(f"{_PREFIX}*-{content}-*.json"))
        return sorted((record for record in found if record is not None), key=_age)

    def _path(self, sweep_id: str) -> Path:
        return self._root / f"{_PREFIX}{sweep_id}.json"


def _age(record: SweepRecord) -> tuple[float, str]:
    return -record.started_unix_s, record.id


def _read(path: Path, content: str) -> SweepRecord | None:
    """None for one that is closed, is another's, or cannot be read."""
    document = read_json(path) or {}
    started: Any = document.get("started_unix_s")
    is_number = isinstance(started, (int, float)) and not isinstance(started, bool) and 0 <= started < 1e11
    if document.get("state") != "open" or document.get("content") != content or not is_number:
        return None
    return SweepRecord(
        id=path.stem.removeprefix(_PREFIX),
        content=content,
        started_unix_s=float(started),
        host=str(document.get("host") or ""),
    )


def _take_lock(path: Path) -> IO[bytes] | None:
    """None where another process holds it. Not inherited by the processes that this one starts."""
    # Non-blocking, and for reading too: opening a pipe would wait for somebody to open its other end.
    lock = os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666), "r+b", buffering=0
    )
    for _ in range(_LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        time.sleep(_LOCK_WAIT_S)
    lock.close()
    return None


def _close(path: Path, state: str) -> None:
    document = read_json(path)
    if document is None:
        return  # the folder was cleared meanwhile: there is nothing to continue
    try:
        write_json(path, {**document, "state": state, "ended_unix_s": time.time()})
        path.with_suffix(".lock").unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> StoreError:
    why = error.strerror or str(error)
    hint = "free some space or give another --store DIR; finished runs are kept"
    return StoreError(f"the sweep {path} could not be written", why=why, hint=hint)
