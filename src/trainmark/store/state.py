"""What the index must know about a folder without reading its records: its state, its outcome, who read it.

Only the standard library is loaded: `show` asks this for every folder.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from trainmark.messages.endings import controller_gone, file_damaged, running, starting
from trainmark.messages.message import Message
from trainmark.runfolder import files
from trainmark.runfolder.ending import ExitRecord, Seal
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, RUN_FILE, Json, NotRegularError, open_regular
from trainmark.runfolder.records import Outcome

_STARTING_S = 60.0
"""After writing run.json a controller takes less than this to lock output.log."""
_READERS = ("bounded.py", "columns.py", "folder.py", "marked_steps.py", "machine_records.py", "observed_steps.py",
    "rank_records.py", "state.py", "step_columns.py", "imported_steps.py")  # fmt: skip


@functools.cache
def reading_version() -> str:
    """A hash of the code that reads folders: after any change of it, folders are read again."""
    own, runfolder = Path(__file__).parent, Path(str(files.__file__)).parent
    digest = hashlib.sha256()
    for path in (*(own / name for name in _READERS), *sorted(runfolder.glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_state(folder: Path) -> str:
    """Differs after any change in the folder, also of permissions. No file is opened."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, _stat(entry.stat(follow_symlinks=False))) for entry in entries)
        return hashlib.sha256(ascii([*found, _stat(folder.stat())]).encode()).hexdigest()[:16]
    except OSError:
        return "changing"  # it changed during this call: the next one gives another state


def read_stamp(folder: Path | str) -> int:
    """The time of the last change of the folder itself: of a file that was added, replaced or removed. -1 if gone."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 -- a Path would take as long again, for every run of a store
    except OSError:
        return -1


def _stat(found: os.stat_result) -> tuple[int, int]:
    return found.st_ctime_ns, found.st_size


@dataclass(frozen=True, kw_only=True)
class FoundEnding:
    outcome: str | None
    """None while it is running."""
    reason: str
    reason_code: str | None
    reason_params: Json
    wall_s: float | None = None
    state: str | None = None
    """Of the folder, where no exit.json states the outcome: the judgement holds until the state changes."""
    seal: Seal | None = None
    is_whole: bool = True
    """Whether exit.json is as it was written."""

    @classmethod
    def stated(cls, ending: ExitRecord) -> FoundEnding:
        return cls(
            outcome=str(ending.outcome),
            reason=ending.reason,
            reason_code=ending.reason_code,
            reason_params=ending.reason_params,
            wall_s=ending.wall_s,
            seal=ending.seal,
            is_whole=ending.is_whole,
        )

    @classmethod
    def judged(cls, outcome: str | None, reason: Message, state: str) -> FoundEnding:
        return cls(outcome=outcome, **reason.to_reason(), state=state)


def read_ending(folder: Path) -> FoundEnding:
    """From exit.json, or judged from the folder if there is none."""
    stated = ExitRecord.read(folder)
    return FoundEnding.stated(stated) if stated is not None else _judge(folder)


def _judge(folder: Path) -> FoundEnding:
    state = read_state(folder)  # first: what changes while it is judged is seen next time
    was_live = is_live(folder)  # before exit.json is read: the controller writes it, and then releases the lock
    stated = ExitRecord.read(folder)
    if stated is not None:
        return FoundEnding.stated(stated)
    if was_live:
        return FoundEnding.judged(None, running(), state)
    if _is_starting(folder):
        return FoundEnding.judged(None, starting(), state)
    if os.path.lexists(folder / EXIT_FILE):
        return FoundEnding.judged(str(Outcome.KILLED), file_damaged(file=EXIT_FILE), state)
    return FoundEnding.judged(str(Outcome.KILLED), controller_gone(), state)


def is_live(folder: Path) -> bool:
    """Whether a controller works in it: it locks output.log, and the kernel releases the lock however it dies."""
    try:
        with open_regular(folder / OUTPUT_FILE) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotRegularError):
        return False
    except OSError:
        return True
    return False


def _is_starting(folder: Path) -> bool:
    """Young, and without the file that its controller will lock."""
    try:
        age_s = time.time() - (folder / RUN_FILE).stat().st_mtime
    except OSError:
        return False
    return abs(age_s) < _STARTING_S and not (folder / OUTPUT_FILE).exists()
