"""CPU time that others used on this host: the kernel's count of busy time, minus that of the run's own processes.

CPU times only grow, so a reading covers all the time since the previous one, and readings may be rare. The cost of a
reading decides when the next one is due: with thousands of processes there are fewer readings, not more overhead. The
time of a process that ended is added to its parent's by the kernel. Linux only.
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
"""Of one core, at most: a reading of 1 ms is followed by 4 s without one."""
_LEAST_S = 0.5
"""The kernel counts in hundredths of a second: a shorter time is too imprecise."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class _Look:
    time_s: float
    own_s: float
    """CPU seconds of our processes since each started."""
    cores: dict[int, tuple[float, float]]
    """Busy and stolen seconds of each core since the machine started."""


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
        """Cores used since the last call; None at the first call, too soon after it, or if the kernel says nothing."""
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
        """Of the visible foreign processes: pid, name and cores used since it was first seen."""
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
            with contextlib.suppress(OSError, ValueError):  # it may end meanwhile
                own_s += _cpu_s(self._proc, pid, with_children=True)
        return _Look(time_s=self._clock(), own_s=own_s, cores=cores) if cores else None

    def _sort(self, pids: set[int]) -> None:
        """The owner of a process is looked up once: that is most of the cost."""
        self._own &= pids
        self._others = {pid: seen for pid, seen in self._others.items() if pid in pids}
        for pid in pids - self._own - self._others.keys():
            if is_of_run(pid, self._tag, proc=self._proc):
                self._own.add(pid)
                continue
            with contextlib.suppress(OSError, ValueError):
                self._others[pid] = (self._clock(), _cpu_s(self._proc, pid))

    def _our_cores(self) -> set[int]:
        """Cores that any process of the run may use; others do not matter."""
        cores = set(os.sched_getaffinity(0))
        for pid in self._own:
            with contextlib.suppress(OSError):
                cores |= os.sched_getaffinity(pid)
        return cores


def _read_cores(proc: Path) -> dict[int, tuple[float, float]]:
    """Busy is user, nice and system time. Interrupts are left out: they are often our own network traffic."""
    cores = {}
    with (proc / "stat").open(encoding="ascii", errors="replace") as file:
        for line in file:
            if not line.startswith("cpu"):
                break  # the rest is long
            name, *fields = line.split()
            if name != "cpu" and len(fields) >= 8:
                ticks = [int(field) for field in fields]
                cores[int(name[3:])] = (sum(ticks[:3]) / _TICKS_PER_S, ticks[7] / _TICKS_PER_S)
    return cores


def _cpu_s(proc: Path, pid: int, *, with_children: bool = False) -> float:
    """Of the process and its threads, optionally with its children that have ended."""
    fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    return sum(int(field) for field in fields[11 : 15 if with_children else 13]) / _TICKS_PER_S


def is_of_run(pid: int, tag: str | None, *, proc: Path = Path("/proc")) -> bool:
    """Whether a process belongs to this run: it has the run's tag in its environment.

    Err on the side of True: a false alarm about our own process is worse. So a process that has ended counts as ours,
    and without a tag every process of the same user does.
    """
    if pid == os.getpid():
        return True
    folder = proc / str(pid)
    try:
        if tag is None:
            return folder.stat().st_uid == os.getuid()
        environment = (folder / "environ").read_bytes()
    except PermissionError:
        return False  # belongs to another user
    except OSError:
        return not _exists(pid)
    return f"{RUN_TAG}={tag}".encode() in environment.split(b"\0")


def name_of(pid: int, *, proc: Path = Path("/proc")) -> str | None:
    try:
        return (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _exists(pid: int) -> bool:
    """Even if /proc is mounted so that it hides the processes of other users."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
