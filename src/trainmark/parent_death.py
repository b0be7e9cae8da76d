"""Make a process end when its parent does, even by SIGKILL: the kernel does this. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 30
"""A little more than the time that a pre-empted run has."""


def dying_with(parent: int) -> Callable[[], None] | None:
    """A function that the child must call; None on other systems than Linux.

    It uses SIGKILL, since a process that hangs in a driver or a collective ignores SIGTERM and keeps its GPU.
    The library is loaded here, before a fork: a child must not take the loader's lock.
    """
    if not Path("/proc/self").exists():
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def hook() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(1)

    return hook


@cache
def become_subreaper() -> None:
    """From now on this process becomes the parent of each descendant whose own parents have all ended."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """For a process that already runs, such as one of a pool."""
    hook = dying_with(parent)
    if hook is not None:
        hook()


def serving(parent: int) -> Callable[[], None]:
    """A function that a process must call which makes samples for the process that trains.

    SIGTERM goes to all processes of a run. The one that trains still needs samples until it has written its checkpoint,
    so this one ignores the signal and ends with its parent. If the parent does not end, as when a broken pool ends its
    processes and waits for them, this one ends by itself a little later.
    """
    die = dying_with(parent)

    def hook() -> None:
        if die is not None:
            die()
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(_GRACE_S))
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    return hook


def serve(parent: int) -> None:
    """For a process that already runs."""
    serving(parent)()
