"""Keep the memory of arrays that were freed for the next ones.

Reading a log makes and frees arrays of a megabyte for each block, decoding an image some of several megabytes. The C
library of Linux gives such memory back to the kernel at once, which clears it page by page when it is asked for again:
a third of the time of an import, a quarter of that of decoding a street scene.
"""

from __future__ import annotations

import ctypes
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""As in malloc.h of glibc."""
_KEPT_BYTES = 64 << 20
_LARGE_BYTES = 16 << 20
"""Larger arrays are still given back."""


@cache
def keep_freed_memory() -> None:
    """For this process, which may hold 64 MiB more. Does nothing where the C library has no such setting."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
