"""Write what every thread is doing when the loop reaches no edge for far too long.

The timer is a C thread of `faulthandler`: it needs neither the interpreter's lock nor the controller, so it works in a
collective that never returns and on any node. It is reset at each edge of the loop, which costs about 0.1 ms (a thread
is started): less than a thousandth of a block of steps.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import time
from collections.abc import Sequence
from pathlib import Path

from trainmark.silence_limit import SilenceLimit, dump_after_s


class Alarm:
    def __init__(self, path: Path, silence_limit: SilenceLimit) -> None:
        self._path, self._silence_limit = path, silence_limit
        self._num_bytes = 0
        try:
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        except OSError:  # a full disk ends the run when its records cannot be written, not here
            self._file = None

    def expect_step(self, recent: Sequence[float]) -> None:
        """The next edge is expected as soon as the seconds of the latest steps suggest."""
        self._set(self._silence_limit.after(recent))

    def expect_pause(self) -> None:
        """Set-up, an evaluation or a checkpoint follows, which may take long."""
        self._set(self._silence_limit.setup_s)

    def close(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self._file is not None:
            with contextlib.suppress(OSError):
                if os.fstat(self._file).st_size == 0:
                    self._path.unlink()
                os.close(self._file)
            self._file = None

    def _set(self, limit_s: float) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError, RuntimeError):
            self._note_false_alarm(self._file)
            faulthandler.dump_traceback_later(dump_after_s(limit_s), file=self._file)

    def _note_false_alarm(self, file: int) -> None:
        """A rank that waited for another one's checkpoint wrote stacks too: say that it continued."""
        num_bytes = os.fstat(file).st_size
        if num_bytes > self._num_bytes:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
            self._num_bytes = num_bytes + os.write(file, f"(the loop continued, {at} UTC)\n\n".encode())
