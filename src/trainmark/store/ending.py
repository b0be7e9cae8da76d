"""How a run ended: as its folder tells it, or as we judge where it does not. Only the standard library is loaded."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from pathlib import Path

from trainmark.messages.endings import controller_gone, running, starting
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, RUN_FILE, Json, NotRegularError, open_regular, read_json
from trainmark.runfolder.records import Outcome

_STARTING_S = 60.0
"""Between run.json and the lock on output.log a controller has at most its processes to describe."""


def read_state(folder: Path) -> str:
    """Another one after any change in the folder, also of permissions; the files themselves are not opened."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, _stat(entry.stat(follow_symlinks=False))) for entry in entries)
        return hashlib.sha256(ascii([*found, _stat(folder.stat())]).encode()).hexdigest()[:16]
    except OSError:
        return "changing"  # while we looked: whoever looks again finds another state


def _stat(found: os.stat_result) -> tuple[int, int]:
    return found.st_ctime_ns, found.st_size


def read_ending(folder: Path, state: str) -> Json:
    """`state` is kept where no exit.json told the outcome: it holds as long as the folder stays so."""
    was_live = is_live(folder)  # asked first: whoever lets go of the lock has written exit.json before
    ending = read_json(folder / EXIT_FILE)
    if ending is not None:
        outcome = ending.get("outcome")
        reason = {name: ending.get(name) for name in ("reason", "reason_code", "reason_params")}
        known = outcome if isinstance(outcome, str) and outcome in set(Outcome) else Outcome.FAILED
        return {"outcome": str(known), **reason, "wall_s": ending.get("wall_s"), "state": None}
    if was_live:
        return {"outcome": None, **running().to_reason(), "state": state}
    if _is_starting(folder):
        return {"outcome": None, **starting().to_reason(), "state": state}
    return {"outcome": str(Outcome.KILLED), **controller_gone().to_reason(), "state": state}


def is_live(folder: Path) -> bool:
    """The controller holds a lock on output.log as long as it lives; the kernel lets go of it however it dies."""
    try:
        with open_regular(folder / OUTPUT_FILE) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotRegularError):
        return False
    except OSError:
        return True
    return False


def _is_starting(folder: Path) -> bool:
    """There is no lock to ask for yet."""
    try:
        age_s = time.time() - (folder / RUN_FILE).stat().st_mtime
    except OSError:
        return False
    return abs(age_s) < _STARTING_S and not (folder / OUTPUT_FILE).exists()
