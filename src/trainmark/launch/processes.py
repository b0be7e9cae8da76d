"""The processes of one run: found by their tag and session, ended all together, and no other process ever touched."""

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
"""After SIGTERM a training has the time to end its step and write a checkpoint; Slurm kills after 30 s by default."""
_KILL_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Root:
    """A process that we started ourselves: the run itself, or a launcher's one on each machine."""

    command: Command
    process: subprocess.Popen[bytes]

    def poll(self) -> int | None:
        """The exit code; a queued job's as soon as it is there, since its waiting process is slow to learn of it."""
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
        start_new_session=True,  # Ctrl-C reaches the controller alone, which then ends the run in order
        preexec_fn=dying_with(os.getpid()),  # a controller killed with -9 leaves no orphan
    )
    return Root(command=command, process=process)


def returncode(roots: Sequence[Root]) -> int | None:
    """Of the first that did not end well, else 0; None while one runs and all that ended did so well."""
    codes = [root.poll() for root in roots]
    bad = next((code for code in codes if code), None)
    return bad if bad is not None else None if None in codes else 0


def find(run_id: str) -> list[psutil.Process]:
    """By tag, so that a worker whose parent died (torchrun gives each its own session) is found as well."""
    return _find(lambda process: process.pid != os.getpid() and process.environ().get(RUN_TAG) == run_id)


def _find(is_wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Among all that this user may look at."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if is_wanted(process):
                found.append(process)
    return found


def end(run_id: str, roots: Sequence[Root], *, grace_s: float = GRACE_S) -> None:
    """Everywhere: on other machines by the commands' own way, unless all ended well by themselves.

    Our end of a remote shell is asked last: with it the processes over there would lose their terminal, and their time.
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
    """What a root started without our tag, as `env -i` and some containers do: it is still in the root's session."""
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
    """Ask with SIGTERM, wait, then SIGKILL what is left, for ten seconds: one stuck in the kernel cannot be ended."""
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
    """By SIGKILL, again and again, since what dies may have started more; those that stay are returned, by pid."""
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
    """psutil tells a process from a later one with its number."""
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
    """Ends what runs elsewhere: the signal to our own process would not reach it."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


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


def main(argv: list[str]) -> int:
    """`python -m trainmark.launch.processes RUN` ends the processes of a run on this machine and waits for their end.

    The controller starts it on every machine of a run that did not end well: the signal to its own ssh reaches those
    processes late or never, and the next run must not find them there.
    """
    return 0 if end_tagged(argv[1], grace_s=PREEMPTION_S) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
