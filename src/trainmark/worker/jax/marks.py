"""Time marks behind queued work, without a wait in the thread that trains.

JAX has no events. A thread waits for a small result of each step and reads the clock when it is there. It wakes up some
tens of microseconds late, at every mark alike, so the error of an interval does not grow with the number of steps.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from queue import Queue

import jax
from jax import Array


@dataclass(eq=False)
class Mark:
    seconds: float | None = None
    """Of `time.perf_counter`; None until the device has passed the mark."""


class Watcher:
    def __init__(self) -> None:
        self._waiting: Queue[tuple[Array | None, Mark] | None] = Queue()
        self._thread = threading.Thread(target=self._watch, name="time marks", daemon=True)
        self._thread.start()

    def mark(self, behind: Array | None) -> Mark:
        """Behind the work that makes this array; None: behind nothing but the earlier marks."""
        mark = Mark()
        self._waiting.put((behind, mark))
        return mark

    def wait(self) -> None:
        """Until every mark is passed."""
        self._waiting.join()

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _watch(self) -> None:
        while (item := self._waiting.get()) is not None:
            array, mark = item
            if array is not None:
                with contextlib.suppress(Exception):  # the thread that trains meets the same error
                    jax.block_until_ready(array)
            mark.seconds = time.perf_counter()
            self._waiting.task_done()
            del item, array, mark  # the array would stay allocated until the next one comes
        self._waiting.task_done()
