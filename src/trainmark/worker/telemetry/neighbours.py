"""Who else used the cores of this host: the kernel's count of busy time, less that of our own processes.

CPU times only grow, so a look tells of all the time since the last one, and looks may be rare. What a look costs
decides when the next one is due: a host with thousands of processes is looked at less often, not at a higher price.
Processes that end leave their time with their parent, where we find it. Linux only: elsewhere nothing is known.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.runfolder.records import RUN_TAG

_COST_SHARE = 1 / 4000
"""Of one core, at most: 1 ms of looking is followed by 4 s of not looking."""
_LEAST_S = 0.5
"""The kernel counts in hundredths of a second: a shorter time tells nothing."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, kw_only=True)
class _Look:
    time_s: float
    own_s: float
    """CPU seconds of our processes since each began."""
    cores: dict[int, tuple[float, float]]
    """Busy and stolen seconds of each core since the machine began."""


class Neighbours:
    def __init__(
        self, tag: str | None, *, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tag, self._proc, self._clock = tag, proc, clock
        self._own: set[int] = set()
        self._others: dict[int, tuple[float, float]] = {}
        """When each was first seen, and its CPU seconds then."""
        self._last: _Look | None = None
        self._due_s = 0.0

    def is_due(self) -> bool:
        return self._clock() >= self._due_s

    def look(self) -> dict[str, Any] | None:
        """Cores used since the last look; None at the first, too soon after it, or where the kernel says nothing."""
        begin_cpu_s = time.thread_time()
        now = self._take()
        self._due_s = self._clock() + max(_LEAST_S, (time.thread_time() - begin_cpu_s) / _COST_SHARE)
        before = self._last
        if now is None or before is None:
            self._last = now
            return None
        seconds = now.time_s - before.time_s
        if seconds < _LEAST_S:
            return None
        self._last = now
        ours = now.cores.keys() & self._our_cores() & before.cores.keys()
        busy_s, stolen_s = (sum(now.cores[core][n] - before.cores[core][n] for core in ours) for n in (0, 1))
        own_s = now.own_s - before.own_s
        return {
            "seconds": round(seconds, 3),
            "num_cores": len(ours),
            "own_cores": round(own_s / seconds, 3),
            "other_cores": round((busy_s - own_s) / seconds, 3),
            "stolen_cores": round(stolen_s / seconds, 3),
        }

    def busiest(self) -> tuple[int, str, float] | None:
        """Of the others that can be seen from here: pid, name and cores used since it was first seen."""
        found = []
        for pid, (seen_s, before_s) in self._others.items():
            with contextlib.suppress(OSError, ValueError):
                seconds = max(self._clock() - seen_s, _LEAST_S)
                found.append(((_cpu_s(self._proc, pid) - before_s) / seconds, pid))
        if not found:
            return None
        cores, pid = max(found)
        return pid, name_of(pid, proc=self._proc) or "?", cores

    def _take(self) -> _Look | None:
        try:
            cores = _read_cores(self._proc)
            pids = {int(entry.name) for entry in self._proc.iterdir() if entry.name.isdigit()}
        except (OSError, ValueError):
            return None
        self._sort(pids)
        own_s = 0.0
        for pid in self._own:
            with contextlib.suppress(OSError, ValueError):  # it may end while we look
                own_s += _cpu_s(self._proc, pid, with_children=True)
        return _Look(time_s=self._clock(), own_s=own_s, cores=cores) if cores else None

    def _sort(self, pids: set[int]) -> None:
        """Whose a process is gets asked once: that is most of the cost."""
        self._own &= pids
        self._others = {pid: seen for pid, seen in self._others.items() if pid in pids}
        for pid in pids - self._own - self._others.keys():
            if is_of_run(pid, self._tag, proc=self._proc):
                self._own.add(pid)
                continue
            with contextlib.suppress(OSError, ValueError):
                self._others[pid] = (self._clock(), _cpu_s(self._proc, pid))

    def _our_cores(self) -> set[int]:
        """Those that any process of the run may use: what happens on others is no neighbour of ours."""
        cores = set(os.sched_getaffinity(0))
        for pid in self._own:
            with contextlib.suppress(OSError):
                cores |= os.sched_getaffinity(pid)
        return cores


def _read_cores(proc: Path) -> dict[int, tuple[float, float]]:
    """Busy is user, nice and system: interrupts are nobody's, and often our own network traffic."""
    cores = {}
    with (proc / "stat").open(encoding="ascii", errors="replace") as file:
        for line in file:
            if not line.startswith("cpu"):
                break  # what follows is long
            name, *fields = line.split()
            if name != "cpu" and len(fields) >= 8:
                ticks = [int(field) for field in fields]
                cores[int(name[3:])] = (sum(ticks[:3]) / _TICKS_PER_S, ticks[7] / _TICKS_PER_S)
    return cores


def _cpu_s(proc: Path, pid: int, *, with_children: bool = False) -> float:
    """Of the process and its threads; with those of its children that have ended."""
    fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    return sum(int(field) for field in fields[11 : 15 if with_children else 13]) / _TICKS_PER_S


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
