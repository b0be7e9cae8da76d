"""One check at a time in a folder of unfinished results: two would remove each other's requests."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from trainmark.errors import InputError, StoreError

_LOCK_FILE = "lock"
_MAX_NAME = 200


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Held until the end of the block or of the process, whichever comes first; an empty folder does not stay."""
    path = folder / _LOCK_FILE
    for place in (folder.parent, folder):
        if place.is_symlink():
            raise _LinkError(place)
    try:
        lock = _take(path)
    except OSError as error:
        why = error.strerror or str(error)
        hint = "use another --store DIR, or fix its permissions"
        raise StoreError(f"cannot write to {folder}", why=why, hint=hint) from error
    if lock is None:
        why = f"{_read_holder(path)} holds {path}"
        hint = "wait until it has ended, or use another --store DIR"
        raise InputError("another parity check with the same options is running", why=why, hint=hint)
    try:
        _refuse_links(folder)
        yield
    finally:
        with contextlib.suppress(OSError):
            if _is_at(path, lock):  # not that of another check, where this one is done and its folder is gone
                path.unlink()
                folder.rmdir()
        lock.close()


def _refuse_links(folder: Path) -> None:
    """Results are read and written here by names that anybody can compute."""
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise _LinkError(path)


class _LinkError(InputError):
    """In a stranger's store a link may lead anywhere, and a pipe may never end."""

    def __init__(self, path: Path) -> None:
        why = "it is a link or a special file, and unfinished results are written and removed there"
        super().__init__(f"cannot use {path}", why=why, hint="remove it, or use another --store DIR")


def _take(path: Path) -> IO[str] | None:
    """None where another process has it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            lock = os.fdopen(os.open(path, flags, 0o666), "r+", encoding="utf-8")
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _LinkError(path) from error
            raise
        if os.fstat(lock.fileno()).st_nlink > 1:
            lock.close()
            raise _LinkError(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        if _is_at(path, lock):
            lock.truncate()
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            return lock
        lock.close()  # its holder has removed it, between our opening and locking it


def _is_at(path: Path, lock: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(lock.fileno()))
    except FileNotFoundError:
        return False


def _read_holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:_MAX_NAME] or "another process"
    except OSError:
        return "another process"
