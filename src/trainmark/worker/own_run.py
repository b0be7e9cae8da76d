"""Which processes of this host belong to our run: ranks, launcher and loaders carry its tag in their environment."""

from __future__ import annotations

import os
from pathlib import Path

from trainmark.runfolder.records import RUN_TAG


def is_of_run(pid: int, tag: str | None, *, proc: Path = Path("/proc")) -> bool:
    """In doubt yes, so that nobody accuses our own: gone already, or, without a tag, of the same user."""
    if pid == os.getpid():
        return True
    folder = proc / str(pid)
    try:
        if tag is None:
            return folder.stat().st_uid == os.getuid()
        environment = (folder / "environ").read_bytes()
    except PermissionError:
        return False  # another user's
    except OSError:
        return not _exists(pid)
    return f"{RUN_TAG}={tag}".encode() in environment.split(b"\0")


def name_of(pid: int, *, proc: Path = Path("/proc")) -> str | None:
    try:
        return (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _exists(pid: int) -> bool:
    """/proc may be mounted so that it hides the processes of others."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
