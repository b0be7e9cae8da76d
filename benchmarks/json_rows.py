"""A file of JSON lines with one row for each measured case, so that an interrupted benchmark resumes."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

from trainmark.runfolder.files import replacing

Row = dict[str, Any]


class JsonRows:
    """The file is complete after each `put`, whenever the benchmark is cut off."""

    def __init__(self, path: Path, key_of: Callable[[Row], Hashable]) -> None:
        self.path, self._key_of = path, key_of
        lines = path.read_text().splitlines() if path.exists() else []
        found = [row for row in map(_read, lines) if row is not None]
        if len(found) < len(lines):
            print(f"{path}: {len(lines) - len(found)} broken lines left out", flush=True)
        self.rows = {key_of(row): row for row in found}

    def put(self, row: Row) -> None:
        """In the place of the row with the same key, if there is one."""
        self.rows[self._key_of(row)] = row
        with replacing(self.path) as file:
            file.write("".join(json.dumps(one) + "\n" for one in self.rows.values()).encode())


def _read(line: str) -> Row | None:
    """None for a line that was cut off."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "workload" in row else None
