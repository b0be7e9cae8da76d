"""Diagnosis of a run that hangs: which rank stopped, the state of its process, the stacks of its threads."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainmark.launch import processes
from trainmark.messages.commands import no_process, py_spy_failed, py_spy_missing, stacks_not_written
from trainmark.messages.message import Message
from trainmark.messages.ranks import (
    name_rank,
    none_behind,
    others_wait,
    process_stopped,
    rank_behind,
    rank_ended,
    rank_in_debugger,
    rank_in_kernel,
    rank_stopped,
)
from trainmark.runfolder.files import write_text
from trainmark.silence_limit import STACKS_SIGNAL

_WRITE_S = 3.0
_STATES = {
    psutil.STATUS_STOPPED: rank_stopped,
    psutil.STATUS_TRACING_STOP: rank_in_debugger,
    psutil.STATUS_ZOMBIE: rank_ended,
    psutil.STATUS_DEAD: rank_ended,
    psutil.STATUS_DISK_SLEEP: rank_in_kernel,
}
"""States that explain a hang; a process that sleeps or runs may be fine."""
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


@dataclass(frozen=True, kw_only=True)
class Silent:
    """What is known about a rank when the run hangs."""

    rank: int
    pid: int | None
    host: str | None
    last_step: int | None
    """None: it has not finished a step, or its file is not visible here."""

    @property
    def name(self) -> Message:
        return name_rank(rank=self.rank, pid=self.pid, host=self.host)


def read_states(run_id: str) -> dict[int, str]:
    """The state of each process of the run on this machine, by pid."""
    states: dict[int, str] = {}
    for process in processes.find(run_id):
        with contextlib.suppress(psutil.Error):
            states[process.pid] = process.status()
    return states


def find_culprits(ranks: Sequence[Silent], states: Mapping[int, str], *, host: str) -> dict[int, Message]:
    """What is wrong, by rank: from the states of processes, else from ranks that are behind the others. Pure."""
    found = {}
    for silent in ranks:
        is_here = silent.pid is not None and silent.host in (None, host)
        if is_here and silent.pid is not None:
            state = _STATES.get(states[silent.pid]) if silent.pid in states else rank_ended
            if state is not None:
                found[silent.rank] = state(who=silent.name)
    if found:
        return found
    steps = [silent.last_step for silent in ranks if silent.last_step is not None]
    return {
        silent.rank: rank_behind(who=silent.name, step=silent.last_step, most=max(steps))
        for silent in ranks
        if silent.last_step is not None and silent.last_step < max(steps)
    }


def describe(ranks: Sequence[Silent], culprits: Mapping[int, Message], states: Mapping[int, str]) -> list[Message]:
    """The causes to name after "no step for 21 s"."""
    known = {silent.pid for silent in ranks}
    others = describe_stopped({pid: state for pid, state in states.items() if pid not in known})
    if not culprits and not others:
        return [none_behind()] if len(ranks) > 1 else []
    causes = [culprits[silent.rank] for silent in ranks if silent.rank in culprits]
    if len(causes) == 1 and len(ranks) > 1:
        causes = [others_wait(cause=causes[0])]
    return [*others, *causes]


def describe_stopped(states: Mapping[int, str]) -> list[Message]:
    return [process_stopped(pid=pid) for pid, state in states.items() if state in _STOPPED]


def gather_stacks(states: Mapping[int, str], stacks: Mapping[int, Path]) -> None:
    """Wait until each process of `stacks` (by pid) has written its file; a stopped one is continued first.

    A process that does not, although it runs, waits in C code and lets no other thread of its own run: it gets the
    signal which makes its main thread write its stack.
    """
    _send(signal.SIGCONT, [pid for pid, state in states.items() if state == psutil.STATUS_STOPPED])
    expected = {pid: path for pid, path in stacks.items() if pid in states}
    _send(STACKS_SIGNAL, _wait_for_files(expected))
    _wait_for_files(expected)


def _send(number: int, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _wait_for_files(expected: Mapping[int, Path]) -> list[int]:
    """The pids whose file is still empty after a few seconds."""
    deadline = time.monotonic() + _WRITE_S
    while (missing := [pid for pid, path in expected.items() if not is_written(path)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return missing


def is_written(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_size > 0
    return False


_PY_SPY_S = 20.0


def dump_stacks(run_id: str, path: Path) -> str | Message:
    """The name of the file with the stacks of every Python process of the run, or why there is none."""
    program = shutil.which("py-spy")
    if program is None:
        return py_spy_missing()
    texts = [_dump_one(program, process) for process in processes.find(run_id)]
    found = [text for text, is_good in texts if is_good]
    if not found:
        problems = (text.strip().splitlines()[-1][:200] for text, _ in texts if text.strip())
        return py_spy_failed(problem=next(problems, None) or no_process())
    try:
        write_text(path, "\n".join(found))
    except OSError as error:
        return stacks_not_written(why=error.strerror or str(error))
    return path.name


def _dump_one(program: str, process: psutil.Process) -> tuple[str, bool]:
    """`--nonblocking`: otherwise a stopped process would never answer."""
    argv = [program, "dump", "--nonblocking", "--pid", str(process.pid)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PY_SPY_S, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error), False
    return done.stdout or done.stderr, done.returncode == 0
