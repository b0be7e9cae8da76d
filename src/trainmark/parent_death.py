"""A process that ends when its parent does, even if that was killed with -9: the kernel sees to it. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_GRACE_S = 30
"""A little more than a pre-empted run gets."""


def dying_with(parent: int) -> Callable[[], None] | None:
    """What the child is to call; None where the kernel has no such thing.

    SIGKILL, since a process that hangs in a driver or a collective would only note a SIGTERM and live on with its GPU.
    The library is loaded here, before a fork: a child may not take the loader's lock.
    """
    if not Path("/proc/self").exists():
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def hook() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the kernel was told
            os._exit(1)

    return hook


def die_with(parent: int) -> None:
    """For a process that runs already, such as one of a pool."""
    hook = dying_with(parent)
    if hook is not None:
        hook()


def serving(parent: int) -> Callable[[], None]:
    """What a process is to call that makes samples for the one that trains, and has no other life.

    A request to end goes to all processes of a run. The one that trains still needs samples on its way to the next edge
    and its checkpoint, so this one goes on; it ends with its parent. Should that not end, it does so by itself, later:
    a pool that broke asks its processes to end and then waits for them.
    """
    die = dying_with(parent)

    def hook() -> None:
        if die is not None:
            die()
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(_GRACE_S))
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    return hook


def serve(parent: int) -> None:
    """For a process that runs already."""
    serving(parent)()
