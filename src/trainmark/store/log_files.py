"""The log of each run as a file: what our workers or a command printed, or the file that was imported."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from trainmark.runfolder.files import OUTPUT_FILE, NotRegularError, open_regular
from trainmark.store.rows import RunRow

_CHUNK_BYTES = 1 << 20
MAX_DIGEST_BYTES = 1 << 30
"""Larger ones are named without a digest, and not read."""


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
    """`root`: of the store. The file is read for its digest, unless it is very large."""
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
    """A sparse file may claim to be larger than any disk, so the size alone decides whether it is read."""
    with open_regular(path) as file:
        num_bytes = os.fstat(file.fileno()).st_size
        if num_bytes > MAX_DIGEST_BYTES:
            return num_bytes, None
        found, num_read = hashlib.sha256(), 0
        while num_read < MAX_DIGEST_BYTES and (chunk := file.read(_CHUNK_BYTES)):
            found.update(chunk)
            num_read += len(chunk)
    return num_read, found.hexdigest()
