"""The processes of a run: found by tag and session, and ended together. No other process is touched."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import psutil

from trainmark.launch import keeper
from trainmark.launch.job import Command
from trainmark.parent_death import become_subreaper
from trainmark.runfolder.records import RUN_TAG

GRACE_S = 10.0
PREEMPTION_S = 25.0
"""Time after SIGTERM to finish a step and write a checkpoint; Slurm kills after 30 s by default."""
_KILL_S = 10.0


class Root:
    """A process that the controller started: the run itself, or a launcher per machine."""

    def __init__(self, command: Command, *, output: IO[bytes]) -> None:
        """An OSError if the command cannot be started."""
        self.command = command
        self._code: int | None = None
        self._status: IO[bytes] | None = None
        environment = {**os.environ, **command.environment}
        if _HAS_KEEPER:
            # What a keeper that is killed leaves then becomes ours; see `end_orphans`.
            become_subreaper()
            self._earlier = _children()
            # Only the command has the tag: signals to the tagged processes must not end their keeper.
            tag = f"{RUN_TAG}={environment.pop(RUN_TAG)}" if RUN_TAG in environment else ""
            self._start_keeper(tag, environment, output)
        else:
            self._process = _open(command.argv, environment, output, status=None)
            self.pid = self._process.pid

    @property
    def session(self) -> int:
        """All processes of the run that do not leave it are in this session."""
        return self._process.pid

    @property
    def keeper(self) -> int | None:
        return self._process.pid if self._status is not None else None

    def poll(self) -> int | None:
        """The exit code. That of a queued job is read from its file: the process waiting for it is slow to notice."""
        if self._code is None:
            self._code = self._process.poll() if self._status is None else self._read_code(self._status)
        if self._code is not None or self.command.exit_file is None:
            return self._code
        try:
            return int(self.command.exit_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def is_over(self) -> bool:
        """Whether our own process has ended, also where the exit code of its job was known before."""
        self.poll()
        return self._code is not None

    def release(self) -> None:
        """The run has ended; the keeper now ends what hid from the search, and itself."""
        if self._status is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2 * _KILL_S)
            self.poll()
            self._status.close()
            if self._process.returncode != 0:
                self._end_orphans()

    def _end_orphans(self) -> None:
        """Of a keeper that was killed itself: processes that lost all their parents, and that the kernel gave to us."""
        deadline = time.monotonic() + _KILL_S
        while (orphans := _children() - self._earlier) and time.monotonic() < deadline:
            for orphan in orphans:
                with contextlib.suppress(psutil.Error):
                    for process in (orphan, *orphan.children(recursive=True)):
                        process.kill()
            for orphan in orphans:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(orphan.pid, os.WNOHANG)
            time.sleep(0.02)

    def _start_keeper(self, tag: str, environment: Mapping[str, str], output: IO[bytes]) -> None:
        read, write = os.pipe()
        self._status = os.fdopen(read, "rb", buffering=0)
        try:
            argv = [sys.executable, "-I", "-S", keeper.__file__, str(write), tag, *self.command.argv]
            self._process = _open(argv, environment, output, status=write)
        except BaseException:
            self._status.close()
            raise
        finally:
            os.close(write)
        pid, problem = (int(word) for word in self._status.readline().split() or (self._process.pid, 0))
        os.set_blocking(read, False)
        self.pid = pid
        if problem:
            self.release()
            raise OSError(problem, os.strerror(problem), self.command.argv[0])

    def _read_code(self, status: IO[bytes]) -> int | None:
        """A keeper that was killed reports nothing: the kernel ended the command with it."""
        has_ended = self._process.poll() is not None
        line = b"" if status.closed else status.read(64)
        return int(line) if line else -signal.SIGKILL if has_ended else None


_HAS_KEEPER = Path("/proc/self/stat").exists()


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children())


def _open(
    argv: Sequence[str], environment: Mapping[str, str], output: IO[bytes], *, status: int | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL if status is None else subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches only the controller, which then ends the run in order
        pass_fds=() if status is None else (status,),
    )


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
            is_over=lambda: all(root.is_over() for root in roots),
            untagged=_of_sessions(roots),
            last={root.pid for root in remote},
            may_ask_last=lambda: all(cancel.done() for cancel in cancels),
        )
    for root in roots:
        root.release()


def _of_sessions(roots: Sequence[Root]) -> list[psutil.Process]:
    """Processes without our tag, as `env -i` and some containers start them: they are still in the root's session."""
    sessions = {root.session for root in roots}
    keepers = {root.keeper for root in roots}
    return _find(lambda process: process.pid not in keepers and os.getsid(process.pid) in sessions)


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
