"""The index file read by the standard library alone: SQLAlchemy takes 0.4 s to load, `show` may take one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainmark.store.columns import VERSION

BUSY_S = 30


class FileReader:
    """Of a file that is there and of this version; anything else is a sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)
        found = self._connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if found != (VERSION,):
            self._connection.close()
            raise sqlite3.DatabaseError("the index is of another version")

    def read(self, table: str, names: Sequence[str], *, run_id: str | None) -> list[tuple[Any, ...]]:
        """The names are ours, never a user's."""
        columns = ", ".join(f'"{name}"' for name in names)
        query = f'SELECT {columns} FROM "{table}"'  # noqa: S608
        if run_id is None:
            return self._connection.execute(query).fetchall()
        return self._connection.execute(f"{query} WHERE id = ?", (run_id,)).fetchall()

    def close(self) -> None:
        self._connection.close()
