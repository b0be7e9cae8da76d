"""One line in a training script gives exact steps: `from trainmark import mark; mark.step(samples=32)`.

Call `step` at the end of every training step with the number of samples of this process. Under `trainmark run -- CMD`
each call appends a record to the run folder named by TRAINMARK_MARK; otherwise it does nothing. The first call only
starts the clock, so that set-up is not part of a step. `evaluation` records a metric and restarts the clock: the time
of an evaluation belongs to no step.

Standard library only, Python 3.8 or later, and thread-safe. `trainmark mark --print` writes this file out, for
interpreters without trainmark: save it as mark.py beside the script and `import mark`.

A record is one write of one line, so that a crash loses no finished record. Nothing here can end the script. Samples
that are not a number >= 0 make the run fail when the script has ended; other values that are not numbers are left out.
If the folder cannot be written, recording stops.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import threading
import time
from typing import Any

VARIABLE = "TRAINMARK_MARK"
"""The variable with the path of the run folder."""
_RANKS = ("RANK", "PADDLE_TRAINER_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""As in trainmark.rank_environment."""
_MOST_PROCESSES = 4096
_MAX_TEXT = 80


def step(samples: float, *, loss: float | None = None) -> None:
    """A training step of this process is done. Pass `loss` only if it is on the host: reading it can block."""
    if _marker is not None:
        _marker.step(samples, loss)


def evaluation(metric: str, value: float, *, epoch: float | None = None) -> None:
    """An evaluation is done: `metric` has the value `value`."""
    if _marker is not None:
        _marker.evaluation(metric, value, epoch)


class _Marker:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._file: int | None = None
        self._last: float | None = None
        self._steps = 0
        self._trained_s = 0.0
        self._has_failed = False

    def step(self, samples: float, loss: float | None) -> None:
        now = time.perf_counter()
        with self._lock:
            last, self._last = self._last, now
            if last is None:
                self._write({"kind": "run_start", "pid": os.getpid(), "by": "mark"})
                return
            self._steps += 1
            self._trained_s += now - last
            record: dict[str, Any] = {
                "kind": "step",
                "step": self._steps,
                "seconds": now - last,
                "time_s": self._trained_s,
            }
            record["samples"] = _finite(_number(samples))
            if record["samples"] is None or record["samples"] < 0:
                record["samples"], record["bad_samples"] = None, (_name(samples) or "")[:_MAX_TEXT]
            number = _number(loss)
            if number is not None:
                record["loss"] = _finite(number)
            self._write(record)

    def evaluation(self, metric: str, value: float, epoch: float | None) -> None:
        with self._lock:
            name, number = _name(metric), _finite(_number(value))
            if name is not None and number is not None:
                where = {"step": self._steps, "epoch": _finite(_number(epoch)), "time_s": self._trained_s}
                self._write({"kind": "eval", **where, "metric": name, "value": number})
            if self._last is not None:
                self._last = time.perf_counter()

    def _write(self, record: dict[str, object]) -> None:
        if self._has_failed:
            return
        try:
            if self._file is None:
                self._file = _open_own_file(self._folder)
            record["unix_s"] = time.time()
            os.write(self._file, json.dumps(record, separators=(",", ":")).encode() + b"\n")
        except (OSError, TypeError, ValueError):
            self._has_failed = True


def _number(value: object) -> float | None:
    """None if `value` is not a number: the conversion of an unknown object may raise anything."""
    try:
        return None if value is None else float(value)  # type: ignore[arg-type]
    except Exception:
        return None


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _name(value: object) -> str | None:
    try:
        return str(value)
    except Exception:
        return None


def _open_own_file(folder: str) -> int:
    """rank<k>.jsonl: the first number from the launcher's rank on that no running process holds.

    Readers add up all files. The lock ends with the process, so that the second process of a script with two phases
    continues the file of the first.
    """
    ranks = [os.environ[name] for name in _RANKS if os.environ.get(name, "").isdigit()]
    first = int(ranks[0]) if ranks else 0
    for rank in range(first, first + _MOST_PROCESSES):
        file = os.open(os.path.join(folder, f"rank{rank}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)  # noqa: PTH118
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        except OSError:
            pass  # a file system without locks
        return file
    raise OSError("too many processes")


def _start() -> _Marker | None:
    folder = os.environ.get(VARIABLE)
    return _Marker(folder) if folder else None


def _restart() -> None:
    """In a forked child, which has its own steps, file and lock."""
    global _marker
    _marker = _start()


_marker = _start()
os.register_at_fork(after_in_child=_restart)
