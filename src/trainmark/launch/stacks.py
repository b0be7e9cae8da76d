"""The stacks of a command of the user's own, which has no clock of ours in it: by py-spy, from outside."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psutil

from trainmark.launch import processes
from trainmark.runfolder.files import write_text

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
