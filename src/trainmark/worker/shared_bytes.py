"""Memory that several processes see. It has no name, so it is gone with the last of them, however that ended.

multiprocessing's own lives in /dev/shm: 64 MB in a container unless told otherwise, and what a killed run had there
stays until the next start of the machine.
"""

from __future__ import annotations

import mmap
import os


class SharedBytes:
    def __init__(self, num_bytes: int) -> None:
        self._descriptor = os.memfd_create("trainmark")
        os.ftruncate(self._descriptor, num_bytes)
        self.buffer = mmap.mmap(self._descriptor, num_bytes)
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        """For `attach`, in processes of the same user, while this one lives."""

    def close(self) -> None:
        """Nothing may look into it any more."""
        self.buffer.close()
        os.close(self._descriptor)


def attach(path: str) -> mmap.mmap:
    """Kept for the life of this process: it will be asked for again."""
    if path not in _attached:
        descriptor = os.open(path, os.O_RDWR)
        try:
            _attached[path] = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
    return _attached[path]


_attached: dict[str, mmap.mmap] = {}
