"""Whether the kernel ended processes for lack of memory: it tells by a count of the control group."""

from __future__ import annotations

import re
from pathlib import Path

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def read_oom_kills(root: Path = Path("/")) -> int | None:
    """Of the control group that this process and its children are in; None where the kernel does not say."""
    for path in _event_files(root):
        try:
            found = _COUNT.search(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


def _event_files(root: Path) -> list[Path]:
    """Where it is told, nearest first: in a container the group's own folder may be mounted as the root of all."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    groups = root / "sys/fs/cgroup"
    files = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "memory" in controllers.split(","):
            files += [groups / "memory" / place / "memory.oom_control" for place in (path.lstrip("/"), "")]
        elif not controllers:
            files += [groups / place / "memory.events" for place in (path.lstrip("/"), "")]
    return files
