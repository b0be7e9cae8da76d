"""The processes of one run: found by their tag and descent, ended all together, and no other process ever touched."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import psutil

from trainmark.launch.job import RUN_TAG, Command

_GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1


def start(command: Command, *, output: IO[bytes], cwd: Path | None = None) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **command.environment}
    return subprocess.Popen(
        list(command.argv),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=cwd,
        start_new_session=True,  # Ctrl-C reaches the controller alone, which then ends the run in order
        preexec_fn=_die_with_parent(os.getpid()),
    )


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """A hook for the child: the kernel ends it when the controller dies, even by kill -9. Linux only."""
    if not Path("/proc/self").exists():
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork: the child may not take the loader's lock

    def hook() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the controller died between fork and prctl
            os._exit(1)

    return hook


def find(run_id: str) -> list[psutil.Process]:
    """By tag, so that a worker whose parent died (torchrun gives each its own session) is found as well."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(RUN_TAG) == run_id:
                found.append(process)
    return found


def end(run_id: str, root: subprocess.Popen[bytes], *, grace_s: float = _GRACE_S) -> None:
    """Ask with SIGTERM, wait, then SIGKILL what is left. Returns when none is alive."""
    for process in find(run_id):
        with contextlib.suppress(psutil.Error):
            process.terminate()
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (root.poll() is None or find(run_id)):
        time.sleep(0.05)
    for _ in range(100):
        left = find(run_id)
        if not left and root.poll() is not None:
            return
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            root.wait(timeout=0.1)
