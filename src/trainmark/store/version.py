"""Which reading of run folders this is, for whoever keeps what was read."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from trainmark.runfolder import files, records

_READING = ("columns.py", "communication.py", "ending.py", "folder.py", "marks.py")


@functools.cache
def reading_version() -> str:
    """Follows from the code itself, so that no change of it can be forgotten; a mended reader reads again."""
    own = Path(__file__).parent
    digest = hashlib.sha256()
    for path in (*(own / name for name in _READING), *(Path(str(module.__file__)) for module in (files, records))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
