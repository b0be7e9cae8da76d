"""The processes of a run: found by tag and session, and ended together. No other process is touched."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from trainmark.launch.job import Command
from trainmark.parent_death import dying_with
from trainmark.runfolder.records import RUN_TAG

GRACE_S = 10.0
PREEMPTION_S = 25.0
"""Time after SIGTERM to finish a step and write a checkpoint; Slurm kills after 30 s by default."""
_KILL_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Root:
    """A process that the controller started: the run itself, or a launcher per machine."""

    command: Command
    process: subprocess.Popen[bytes]

    def poll(self) -> int | None:
        """The exit code. That of a queued job is read from its file: the process waiting for it is slow to notice."""
        code = self.process.poll()
        if code is not None or self.command.exit_file is None:
            return code
        try:
            return int(self.command.exit_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None


def start(command: Command, *, output: IO[bytes]) -> Root:
    environment = {**os.environ, **command.environment}
    process = subprocess.Popen(
        list(command.argv),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches only the controller, which then ends the run in order
        preexec_fn=dying_with(os.getpid()),  # a controller that is killed leaves no processes behind
    )
    return Root(command=command, process=process)


def returncode(roots: Sequence[Root]) -> int | None:
    """The first exit code that is not 0, else 0; None while processes run and none has failed."""
    codes = [root.poll() for root in roots]
    bad = next((code for code in codes if code), None)
    return bad if bad is not None else None if None in codes else 0


def find(run_id: str) -> list[psutil.Process]:
    """By tag: this also finds a worker whose parent died (torchrun gives each worker its own session)."""
    return _find(lambda process: process.pid != os.getpid() and process.environ().get(RUN_TAG) == run_id)


def _find(is_wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Among the processes that this user may inspect."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if is_wanted(process):
                found.append(process)
    return found


def end(run_id: str, roots: Sequence[Root], *, grace_s: float = GRACE_S) -> None:
    """End all processes; on other machines with the commands' `cancel`, unless all ended with exit code 0.

    Our end of a remote shell gets its signal last: without it the remote processes get SIGHUP at once.
    """
    remote = [root for root in roots if root.command.cancel and returncode(roots) != 0]
    with ThreadPoolExecutor(max_workers=32) as pool:
        cancels = [pool.submit(run_cancel, root.command.cancel) for root in remote]
        end_tagged(
            run_id,
            grace_s=grace_s,
            is_over=lambda: all(root.process.poll() is not None for root in roots),
            untagged=_of_sessions({root.process.pid for root in roots}),
            last={root.process.pid for root in remote},
            may_ask_last=lambda: all(cancel.done() for cancel in cancels),
        )


def _of_sessions(sessions: Collection[int]) -> list[psutil.Process]:
    """Processes without our tag, as `env -i` and some containers start them: they are still in the root's session."""
    return _find(lambda process: os.getsid(process.pid) in sessions)


def end_tagged(
    run_id: str,
    *,
    grace_s: float = GRACE_S,
    is_over: Callable[[], bool] = lambda: True,
    untagged: Sequence[psutil.Process] = (),
    last: Collection[int] = (),
    may_ask_last: Callable[[], bool] = lambda: True,
) -> bool:
    """SIGTERM, wait, then SIGKILL for ten seconds; False if processes are left, such as one stuck in the kernel."""
    _ask(process for process in _left([run_id], untagged) if process.pid not in last)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (not is_over() or _left([run_id], untagged)):
        if last and may_ask_last():
            _ask(process for process in _left([run_id], untagged) if process.pid in last)
            last = ()
        time.sleep(0.05)
    return not kill_left([run_id], is_over=is_over, untagged=untagged)


def kill_left(
    run_ids: Sequence[str],
    *,
    limit_s: float = _KILL_S,
    is_over: Callable[[], bool] = lambda: True,
    untagged: Sequence[psutil.Process] = (),
) -> list[int]:
    """SIGKILL repeatedly, since a process may start others before it dies; returns the pids that are left."""
    deadline = time.monotonic() + limit_s
    while True:
        left = _left(run_ids, untagged)
        if (not left and is_over()) or time.monotonic() > deadline:
            return [process.pid for process in left]
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)


def _left(run_ids: Sequence[str], untagged: Sequence[psutil.Process]) -> list[psutil.Process]:
    tagged = (process for run_id in run_ids for process in find(run_id))
    return list({process.pid: process for process in (*_alive(untagged), *tagged)}.values())


def _alive(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """psutil recognises a later process with the same pid."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _ask(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()


def run_cancel(argv: Sequence[str]) -> None:
    """Ends processes on other machines, which a signal to our own process does not reach."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def read_oom_kills(root: Path = Path("/")) -> int | None:
    """How many processes of our control group the kernel killed for lack of memory; None if it does not say."""
    for path in _event_files(root):
        try:
            found = _COUNT.search(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


def _event_files(root: Path) -> list[Path]:
    """Files with the count, nearest first: in a container the group's own folder may be mounted as the root."""
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


def main(argv: list[str]) -> int:
    """`python -m trainmark.launch.processes RUN` ends the processes of a run on this machine and waits for their end.

    The controller starts it on every machine of a run that did not end well: the signal to its own ssh reaches those
    processes late or never, and the next run must not find them there.
    """
    return 0 if end_tagged(argv[1], grace_s=PREEMPTION_S) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
