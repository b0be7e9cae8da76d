"""A process that waits for the end of the controller and then ends what is left of its run.

The kernel ends the first process of a run with its controller (`trainmark.parent_death`), but not the processes that
this one started, such as the workers of a user's own launcher. The warden holds the other end of a pipe, which closes
however the controller dies.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

from trainmark.launch.job import Command, own_python
from trainmark.launch.processes import kill_left, run_cancel

_MODULE = "trainmark.launch.warden"


class Warden:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Warden:
        with contextlib.suppress(OSError):  # without a warden the kernel still ends the first process of a run
            self._process = subprocess.Popen(
                [*own_python(sys.executable), _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self

    def watch(self, run_id: str, commands: Sequence[Command]) -> None:
        """This is the run to end from now on; earlier ones have ended."""
        cancels = [list(command.cancel) for command in commands if command.cancel]
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(json.dumps([run_id, cancels]).encode() + b"\n")
                self._process.stdin.flush()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


def main() -> int:
    """Reads one run per line; the end of the input means that the controller has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a shutdown signals all processes at once, and this one must end last
    run_id, cancels = "", []
    for line in sys.stdin:
        run_id, cancels = json.loads(line)
    for argv in cancels:
        run_cancel(argv)
    return 1 if run_id and kill_left([run_id]) else 0


if __name__ == "__main__":
    sys.exit(main())
