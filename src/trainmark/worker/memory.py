"""The host's memory: a limit for this process, and errors that mean that it ran out. Any framework."""

from __future__ import annotations

import resource
import sys

from trainmark import host

_NO_MEMORY = (
    "can't allocate memory",
    "Cannot allocate memory",
    "out of memory",
    "std::bad_alloc",
    "ALLOC_FAILED",
    "was unable to find an engine to execute this computation",  # no algorithm of cuDNN got the memory it works in
)
_NO_MEMORY_UNDER_A_LIMIT = (
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory",
    "can't start new thread",
)
"""What oneDNN and the interpreter say of a failed allocation, and of other errors too."""


def is_memory_error(error: BaseException) -> bool:
    """By its text: allocators have no common error type, and libraries use their own words."""
    if isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY):
        return True
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return soft != resource.RLIM_INFINITY and any(text in str(error) for text in _NO_MEMORY_UNDER_A_LIMIT)


def limit_host_memory(num_bytes: int) -> None:
    """From now on allocations of this process fail as they would on a smaller host."""
    taken = host.private_bytes() or 0
    if taken >= num_bytes:
        raise MemoryError(f"the framework itself uses {taken:,} bytes, the limit is {num_bytes:,}")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = num_bytes if hard == resource.RLIM_INFINITY else min(num_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def peak_host_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
