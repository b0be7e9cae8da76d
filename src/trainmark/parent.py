"""A process that ends when its parent does, even if that was killed with -9: the kernel sees to it. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1


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
