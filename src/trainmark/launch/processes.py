"""The processes of one run: found by their tag and descent, ended all together, and no other process ever touched."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import IO

import psutil

from trainmark.launch.job import RUN_TAG, Command
from trainmark.parent import dying_with

GRACE_S = 10.0


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
        preexec_fn=dying_with(os.getpid()),  # a controller killed with -9 leaves no orphan
    )


def find(run_id: str) -> list[psutil.Process]:
    """By tag, so that a worker whose parent died (torchrun gives each its own session) is found as well."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(RUN_TAG) == run_id:
                found.append(process)
    return found


def end(run_id: str, root: subprocess.Popen[bytes], *, grace_s: float = GRACE_S) -> None:
    """Ask with SIGTERM, wait, then SIGKILL what is left, for ten seconds: one stuck in the kernel cannot be ended."""
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
