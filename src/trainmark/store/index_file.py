"""Reads the index file with the standard library only: importing SQLAlchemy would add 0.4 s to every `show`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainmark.store.columns import VERSION

BUSY_S = 30
"""How long to wait for another process that writes the index."""


class FileReader:
    """A missing or damaged file, or one of another version, is a sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)
        found = self._connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if found != (VERSION,):
            self._connection.close()
            raise sqlite3.DatabaseError("the index has another version")

    def read(self, table: str, names: Sequence[str], *, run_id: str | None) -> list[tuple[Any, ...]]:
        """`table` and `names` are constants of this program, never input."""
        columns = ", ".join(f'"{name}"' for name in names)
        query = f'SELECT {columns} FROM "{table}"'  # noqa: S608
        if run_id is None:
            return self._connection.execute(query).fetchall()
        return self._connection.execute(f"{query} WHERE id = ?", (run_id,)).fetchall()

    def close(self) -> None:
        self._connection.close()
