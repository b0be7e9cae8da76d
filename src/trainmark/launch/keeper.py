"""Runs one command and ends every process that comes from it, whatever these do to their environment or session.

`processes.start` runs this file by its path with `python -I -S`; it imports only the standard library, to start fast.
As a subreaper it becomes the parent of each descendant whose own parent has ended, so a walk down from here finds them
all: also those that a double fork, `setsid` or `env -i` hides from the search by tag and session. Linux only.

The controller reads from the pipe STATUS: a line with the pid of the command and an error number (0 if it was started),
and a line with its exit code, negative for a signal. Standard input is a pipe that the controller holds open. Its end
means that the controller has ended the run, or was killed: then nothing of the run may be left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 2.0
"""After SIGTERM to what is left when all that the controller found has ended."""
_KILL_S = 10.0


def main(argv: list[str]) -> int:
    """argv: this file, STATUS, a NAME=VALUE for the environment of the command or "", and the command."""
    status, (name, _, value), command = int(argv[1]), argv[2].partition("="), argv[3:]
    environment = {**os.environ, name: value} if name else dict(os.environ)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(status, False)
    wake = _listen()
    pid, problem = _start(command, environment, libc)
    os.write(status, f"{pid} {problem}\n".encode())
    has_ended = _wait(pid, status, wake)
    # A command that still runs was not ended in order, so the controller was killed.
    _end_all(signal.SIGTERM if has_ended else signal.SIGKILL, grace_s=_GRACE_S if has_ended else 0.0)
    return 0


def _listen() -> int:
    """A descriptor that becomes readable when a child has ended. Signals meant for the run do not end this process."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # a handler is reset in the command, ignoring is inherited
            signal.signal(number, lambda *_: None)
    return read


def _start(command: list[str], environment: dict[str, str], libc: ctypes.CDLL) -> tuple[int, int]:
    """The pid of the command, and the error number if it could not be started, else 0."""
    keeper = os.getpid()
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == keeper:
                for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these; a command expects the default
                    signal.signal(number, signal.SIG_DFL)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.execvpe(command[0], command, environment)  # noqa: S606 -- the user's own command
        except OSError as error:
            os.write(write, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(write)
    problem = os.read(read, 16)  # ends empty when the command starts, since that closes the pipe
    os.close(read)
    return pid, int(problem or 0)


def _wait(pid: int, status: int, wake: int) -> bool:
    """Until the controller lets go; whether the command has ended by then."""
    poll = select.poll()
    poll.register(0, select.POLLHUP)
    poll.register(wake, select.POLLIN)
    has_ended = False
    while True:
        ended = _reap()
        if pid in ended:
            has_ended = True
            with contextlib.suppress(OSError):  # nobody listens any more
                os.write(status, f"{os.waitstatus_to_exitcode(ended[pid])}\n".encode())
        for descriptor, _ in poll.poll():
            if descriptor == 0:
                return has_ended
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)


def _reap() -> dict[int, int]:
    """The wait status of all children that have ended, adopted ones too."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def _end_all(first: int, *, grace_s: float) -> None:
    """Ask once, then kill repeatedly, since a process may start others before it dies."""
    begin = time.monotonic()
    _signal(_descendants(), first)
    while time.monotonic() - begin < grace_s + _KILL_S:
        _reap()
        left = _descendants()
        if not left:
            return
        if time.monotonic() - begin > grace_s:
            _signal(left, signal.SIGKILL)
        time.sleep(0.02)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants() -> list[int]:
    """Of this process, without those that have ended already."""
    children: dict[int, list[int]] = {}
    ended: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            # The name in parentheses may have anything inside; what follows the last one is fixed.
            state, parent = path.read_bytes().rpartition(b")")[2].split()[:2]
            pid = int(path.parent.name)
            children.setdefault(int(parent), []).append(pid)
            if state in (b"Z", b"X"):
                ended.add(pid)
    found, queue = [], [os.getpid()]
    while queue:
        of_one = children.get(queue.pop(), [])
        queue += of_one
        found += [pid for pid in of_one if pid not in ended]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv))
