"""What can be said of a run that hangs: which rank is silent, what its process does, where its threads stand."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainmark.launch import processes
from trainmark.launch.endings import name_rank
from trainmark.runfolder.files import write_text

_WAKE_S = 3.0
_FINISH_S = 0.5
_STATES = {
    psutil.STATUS_STOPPED: "is stopped",
    psutil.STATUS_TRACING_STOP: "is stopped by a debugger",
    psutil.STATUS_ZOMBIE: "has ended",
    psutil.STATUS_DEAD: "has ended",
    psutil.STATUS_DISK_SLEEP: "waits inside the kernel (a disk, a network drive or a driver)",
}
"""What explains silence; a process that sleeps or runs may be well."""
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


@dataclass(frozen=True, kw_only=True)
class Silent:
    """A rank as far as it is known when the run hangs."""

    rank: int
    pid: int | None
    host: str | None
    last_step: int | None
    """None: it has not come to its first one, or its file cannot be seen from here."""

    @property
    def name(self) -> str:
        return name_rank(self.rank, pid=self.pid, host=self.host)


def read_states(run_id: str) -> dict[int, str]:
    """The state of each process of the run on this machine, by pid."""
    states: dict[int, str] = {}
    for process in processes.find(run_id):
        with contextlib.suppress(psutil.Error):
            states[process.pid] = process.status()
    return states


def find_culprits(ranks: Sequence[Silent], states: Mapping[int, str], *, host: str) -> dict[int, str]:
    """By rank, what is wrong with it: by the state of its process, else by being behind the others. Pure."""
    found = {}
    for silent in ranks:
        is_here = silent.pid is not None and silent.host in (None, host)
        if is_here and silent.pid is not None:
            state = _STATES.get(states[silent.pid]) if silent.pid in states else "has ended"
            if state is not None:
                found[silent.rank] = state
    if found:
        return found
    steps = [silent.last_step for silent in ranks if silent.last_step is not None]
    return {
        silent.rank: f"made its last step {silent.last_step}, while others came to {max(steps)}"
        for silent in ranks
        if silent.last_step is not None and silent.last_step < max(steps)
    }


def describe(ranks: Sequence[Silent], culprits: Mapping[int, str], states: Mapping[int, str]) -> str:
    """The end of the sentence that begins with "no step for 21 s"."""
    parts = [f"{silent.name} {culprits[silent.rank]}" for silent in ranks if silent.rank in culprits]
    known = {silent.pid for silent in ranks}
    parts += [describe_stopped({pid: state for pid, state in states.items() if pid not in known})]
    parts = [part for part in parts if part]
    if not parts:
        return "no rank is behind another" if len(ranks) > 1 else ""
    is_part = 0 < len(culprits) < len(ranks)
    return ", ".join(parts) + ("; the others wait for it" if is_part and len(culprits) == 1 else "")


def describe_stopped(states: Mapping[int, str]) -> str:
    return ", ".join(f"process {pid} of the run is stopped" for pid, state in states.items() if state in _STOPPED)


def wake(states: Mapping[int, str], *, until: Callable[[], bool]) -> None:
    """A stopped process can write no stacks: let it go on, for as long as it takes to do so."""
    stopped = [pid for pid, state in states.items() if state == psutil.STATUS_STOPPED]
    for pid in stopped:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + _WAKE_S
    while stopped and time.monotonic() < deadline and not until():
        time.sleep(0.05)
    if stopped:
        time.sleep(_FINISH_S)  # the first byte is there: the rest is written thread by thread


def is_written(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_size > 0
    return False


_MOST_S = 20.0
_HOW = "for the stacks of a command: pip install py-spy (and, not as root, allow ptrace)"


def dump_stacks(run_id: str, path: Path) -> tuple[str | None, str]:
    """The name of the file with the stacks of every Python process of the run, or why there is none."""
    program = shutil.which("py-spy")
    if program is None:
        return None, _HOW
    texts = [_dump_one(program, process) for process in processes.find(run_id)]
    found = [text for text, is_good in texts if is_good]
    if not found:
        problem = next((text.strip().splitlines()[-1] for text, _ in texts if text.strip()), "no process is left")
        return None, f"py-spy could read no process: {problem[:200]}"
    try:
        write_text(path, "\n".join(found))
    except OSError as error:
        return None, f"the stacks could not be written: {error.strerror or error}"
    return path.name, ""


def _dump_one(program: str, process: psutil.Process) -> tuple[str, bool]:
    """`--nonblocking`: a process that is stopped would never answer otherwise."""
    argv = [program, "dump", "--nonblocking", "--pid", str(process.pid)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_MOST_S, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error), False
    return done.stdout or done.stderr, done.returncode == 0
