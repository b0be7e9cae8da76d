"""Write what every thread is doing when the loop reaches no edge for far too long.

A thread waits for the time at which the next edge is overdue; an edge only moves that time, so it costs a microsecond.
The thread holds the interpreter's lock while it reads the stacks, so no other thread changes them meanwhile.
`faulthandler.dump_traceback_later` reads them without the lock: in Python 3.11 a thread that runs at that moment, such
as the telemetry's, then ended the process with SIGSEGV.

Code that waits in C and keeps the lock blocks that thread too. For this case the main thread writes its own stack when
`STACKS_SIGNAL` arrives, which the controller sends to a rank that left no stacks.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from trainmark.silence_limit import STACKS_SIGNAL, SilenceLimit, dump_after_s


class Alarm:
    def __init__(self, path: Path, silence_limit: SilenceLimit) -> None:
        self._path, self._silence_limit = path, silence_limit
        self._num_bytes = 0
        self._changed = threading.Condition()
        self._overdue_at: float | None = None
        """On the monotonic clock; None: nothing is expected."""
        self._wakes_at = float("inf")
        """When the thread looks again; it is only woken for an earlier time."""
        self._is_closed = False
        try:
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        except OSError:  # a full disk ends the run when its records cannot be written, not here
            self._file = None
            return
        faulthandler.register(STACKS_SIGNAL, file=self._file, all_threads=False)
        self._thread = threading.Thread(target=self._watch, args=(self._file,), name="alarm", daemon=True)
        self._thread.start()

    def expect_step(self, recent: Sequence[float]) -> None:
        """The next edge is expected as soon as the seconds of the latest steps suggest."""
        self._expect(self._silence_limit.after(recent))

    def expect_pause(self) -> None:
        """Set-up, an evaluation or a checkpoint follows, which may take long."""
        self._expect(self._silence_limit.setup_s)

    def close(self) -> None:
        if self._file is None:
            return
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()
        faulthandler.unregister(STACKS_SIGNAL)
        with contextlib.suppress(OSError):
            if os.fstat(self._file).st_size == 0:
                self._path.unlink()
            os.close(self._file)
        self._file = None

    def _expect(self, limit_s: float) -> None:
        if self._file is None:
            return
        with self._changed:
            self._note_false_alarm(self._file)
            self._overdue_at = time.monotonic() + dump_after_s(limit_s)
            if self._overdue_at < self._wakes_at:
                self._changed.notify()

    def _note_false_alarm(self, file: int) -> None:
        """A rank that waited for another one's checkpoint wrote stacks too: say that it continued."""
        if self._num_bytes > 0:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
            with contextlib.suppress(OSError):
                os.write(file, f"(the loop continued, {at} UTC)\n\n".encode())
            self._num_bytes = 0

    def _watch(self, file: int) -> None:
        with self._changed:
            while not self._is_closed:
                left_s = None if self._overdue_at is None else self._overdue_at - time.monotonic()
                if left_s is not None and left_s <= 0:
                    self._overdue_at = None
                    # One write: whoever sees the file not empty sees all of it.
                    with contextlib.suppress(OSError):
                        self._num_bytes = os.write(file, _describe_threads().encode(errors="replace"))
                    continue
                self._wakes_at = float("inf") if self._overdue_at is None else self._overdue_at
                self._changed.wait(left_s)


def _describe_threads() -> str:
    """The stack of every thread but this one, the main thread first."""
    frames = sys._current_frames()
    main = threading.main_thread()
    threads = sorted(threading.enumerate(), key=lambda thread: thread is not main)
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    texts = [f"no step for far too long, {at} UTC"]
    for thread in threads:
        if thread is not threading.current_thread() and thread.ident in frames:
            stack = "".join(traceback.format_stack(frames[thread.ident]))
            texts.append(f"thread {thread.name} (most recent call last):\n{stack}")
    return "\n".join(texts) + "\n"
