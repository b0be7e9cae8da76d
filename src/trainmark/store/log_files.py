"""The log of each run as a file: what our workers or a command printed, or the file that was imported."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from trainmark.runfolder.files import OUTPUT_FILE, NotRegularError, open_regular
from trainmark.store.rows import RunRow

_CHUNK_BYTES = 1 << 20
_MAX_BYTES = 1 << 30
"""Larger ones are named without a digest."""


@dataclass(frozen=True, kw_only=True)
class LogFile:
    path: Path
    num_bytes: int | None
    """None if the file is gone."""
    sha256: str | None
    """Of the file as it is now; of an imported log that is gone, as it was."""
    is_changed: bool = False
    """The file is not the one that was imported."""


def find_log(root: Path, row: RunRow) -> LogFile:
    """`root`: of the store. Every byte of the file is read, for its digest."""
    is_own = row.source in ("trainmark", "command")
    path = root / row.id / OUTPUT_FILE if is_own else Path(row.source)
    recorded = None if is_own else row.log.get("sha256")
    stated = recorded if isinstance(recorded, str) else None
    try:
        num_bytes, digest = _digest(path)
    except (OSError, ValueError, NotRegularError):
        return LogFile(path=path, num_bytes=None, sha256=stated)
    is_changed = digest is not None and stated is not None and digest != stated
    return LogFile(path=path, num_bytes=num_bytes, sha256=digest, is_changed=is_changed)


def _digest(path: Path) -> tuple[int, str | None]:
    found, num_bytes = hashlib.sha256(), 0
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            num_bytes += len(chunk)
            if num_bytes <= _MAX_BYTES:
                found.update(chunk)
    return num_bytes, found.hexdigest() if num_bytes <= _MAX_BYTES else None
