"""The index as a file: read, found to be damaged, replaced.

Only the standard library is used: importing SQLAlchemy would add 0.4 s to every `show`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainmark.errors import StoreError
from trainmark.store.columns import VERSION

BUSY_S = 30
"""How long to wait for another process that writes the index."""
SCHEMA_QUERY = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
_OF_THE_FILE = {
    sqlite3.SQLITE_ERROR,  # no such table or column, a view where a table was
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_SCHEMA,
}
"""Others are locks, permissions, a full disk: another file would not help."""


class DamagedIndexError(StoreError):
    """The index is not as this program left it. It is rebuilt from the run folders."""


def is_damage(error: BaseException | None) -> bool:
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    # Without a code: raised by Python, such as a text that is not UTF-8.
    return code is None or code & 0xFF in _OF_THE_FILE or code == sqlite3.SQLITE_IOERR_SHORT_READ


def is_special(index: Path) -> bool:
    """A folder, pipe or device, for which SQLite would wait, or which it would read without end."""
    if not os.path.lexists(index) or index.is_file():
        return False
    target = Path(os.path.realpath(index))
    return os.path.lexists(target) or not target.parent.is_dir()  # else a link to a file that is to be made


def fingerprint(schema: Iterable[Sequence[Any]]) -> str:
    """Of the answer to `SCHEMA_QUERY`: a dropped column, a view, a trigger gives another one."""
    return hashlib.sha256(repr([tuple(row) for row in schema]).encode(errors="replace")).hexdigest()[:16]


class FileReader:
    """A missing or damaged file, or one of another version, is a sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        if is_special(path):
            raise sqlite3.DatabaseError("it is not a regular file")
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)
        try:
            found = dict(self._connection.execute("SELECT key, value FROM meta"))
            schema = fingerprint(self._connection.execute(SCHEMA_QUERY))
            if (found.get("version"), found.get("schema")) != (VERSION, schema):
                raise sqlite3.DatabaseError("the index has another version")
        except BaseException:
            self._connection.close()
            raise

    def read(self, table: str, names: Sequence[str], *, run_id: str | None) -> list[tuple[Any, ...]]:
        """`table` and `names` are constants of this program, never input."""
        columns = ", ".join(f'"{name}"' for name in names)
        query = f'SELECT {columns} FROM "{table}"'  # noqa: S608
        if run_id is None:
            return self._connection.execute(query).fetchall()
        return self._connection.execute(f"{query} WHERE id = ?", (run_id,)).fetchall()

    def close(self) -> None:
        self._connection.close()


def beside(index: Path) -> Path:
    """Where a new index is built, on the same disk."""
    target = _target(index)
    return target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")


def swap_in(new: Path, index: Path) -> Path | None:
    """Put a closed index in the place of another one, which is kept as `index.damaged`; returns where that is.

    Whoever has the old file open goes on with it: what they write there is read from the run folders next time.
    """
    target, kept = _target(index), None
    if os.path.lexists(target):
        kept = _free_name(target.with_suffix(".damaged"), target)
        target.replace(kept)
    for suffix in ("-wal", "-shm", "-journal"):  # of the old file: SQLite would apply them to the new one
        with contextlib.suppress(OSError):
            target.with_name(target.name + suffix).unlink()
    new.replace(target)
    return kept


def discard(new: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            new.with_name(new.name + suffix).unlink()


def _target(index: Path) -> Path:
    """The index may be a link to a file on a faster disk. What is neither that nor a file is replaced itself."""
    return Path(os.path.realpath(index)) if index.is_file() else index


def _free_name(path: Path, damaged: Path) -> Path:
    """A file is replaced by the next damaged one; a folder neither replaces nor is replaced."""
    is_taken = os.path.lexists(path) and (path.is_dir() or damaged.is_dir())
    return path.with_name(f"{path.name}-{os.urandom(4).hex()}") if is_taken else path
