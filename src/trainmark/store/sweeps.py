"""Sweeps that were started in a store. Each has two hidden files beside the run folders:

    .sweep-<id>.json   what was planned and what was skipped, when it started, and whether it was finished
    .sweep-<id>.lock   locked while the controller lives; the kernel releases the lock however it dies

Which runs are done is not stored here: each run folder holds the id of its sweep.
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
from typing import IO

from trainmark.errors import StoreError
from trainmark.messages.message import Message
from trainmark.runfolder.files import SCHEMA, Json, read_json, write_json
from trainmark.runfolder.values import as_float, as_object, as_text

_PREFIX = ".sweep-"
_ID = re.compile(r"[0-9A-Za-z-]{1,128}")
_MAX_UNIX_S = 1e11
"""What `time.localtime` can certainly convert."""
_MAX_LOOKED_AT = 20
"""Of the newest: reading thousands of plans would take longer than it is worth."""
_LOCK_TRIES = 10
_LOCK_WAIT_S = 0.02
"""`plan` takes the lock for an instant to see whether a controller lives; a `run` must wait for that, not give up."""


@dataclass(frozen=True, kw_only=True)
class SweepRecord:
    id: str
    content: str
    started_unix_s: float
    host: str

    @property
    def started(self) -> str:
        """For messages, in local time."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.started_unix_s))


class HeldSweep:
    """A sweep whose lock this process holds until it is released."""

    def __init__(self, record: SweepRecord, path: Path, lock: IO[bytes]) -> None:
        self.record = record
        self._path, self._lock = path, lock

    def finish(self) -> None:
        """All its runs are done: the same command starts a new sweep."""
        _close(self._path, "finished")

    def abandon(self) -> None:
        """It will not be continued: `run --fresh` starts a new sweep."""
        _close(self._path, "abandoned")

    def release(self) -> None:
        self._lock.close()


class Sweeps:
    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, content: str, *, planned: Sequence[Json], skipped: Sequence[Json], settings: Json) -> HeldSweep:
        """The lock is taken first, so that a new sweep is never seen without a living controller."""
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
            write_json(path, document, is_private=True)
        except OSError as error:
            raise _cannot_write(path, error) from error
        record = SweepRecord(id=sweep_id, content=content, started_unix_s=started, host=host)
        return HeldSweep(record, path, lock)

    def take_up(self, content: str) -> HeldSweep | None:
        """The newest unfinished sweep whose controller is gone."""
        return next(iter(self._take(content, most=1)), None)

    def abandon(self, content: str) -> None:
        for held in self._take(content):
            held.abandon()
            held.release()

    def find(self, content: str) -> SweepRecord | None:
        """The sweep that `take_up` would take, which stays as it is."""
        held = self.take_up(content)
        if held is not None:
            held.release()
        return held.record if held is not None else None

    def find_changed(self, content: str, *, planned: Sequence[Json]) -> tuple[SweepRecord, Json] | None:
        """An unfinished sweep of the same runs that had other settings, such as other code, and those settings."""
        paths = sorted(self._root.glob(f"{_PREFIX}*.json"), reverse=True)[:_MAX_LOOKED_AT]
        for path in paths:
            document = read_json(path) or {}
            other = as_text(document.get("content"))
            if other in (None, content) or document.get("planned") != list(planned):
                continue
            if other is not None and (record := _read(path, other)) is not None:
                return record, as_object(document.get("settings"))
        return None

    def read_cells(self, sweep_id: str) -> list[tuple[Json, Message | None]]:
        """The cells of a sweep in any state, with the reason for each one that was skipped.

        Empty if its file is missing, damaged or of another program.
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
            with contextlib.suppress(OSError):  # nothing can be continued in a read-only store
                lock = _take_lock(path.with_suffix(".lock"))
            if lock is None:
                continue
            if _read(path, content) is None:  # finished after it was listed and before it was locked
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
    """None for a sweep that is closed, has other content, or cannot be read."""
    document = read_json(path) or {}
    started = as_float(document.get("started_unix_s"))
    if document.get("state") != "open" or document.get("content") != content or started is None:
        return None
    if not 0 <= started < _MAX_UNIX_S:
        return None
    return SweepRecord(
        id=path.stem.removeprefix(_PREFIX),
        content=content,
        started_unix_s=started,
        host=as_text(document.get("host")) or "",
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
        return  # it was deleted meanwhile: there is nothing to continue
    try:
        write_json(path, {**document, "state": state, "ended_unix_s": time.time()})
        path.with_suffix(".lock").unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> StoreError:
    why = error.strerror or str(error)
    hint = "free some space or pass another --store DIR; finished runs are kept"
    return StoreError(f"cannot write {path}", why=why, hint=hint)
