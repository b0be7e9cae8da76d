"""Generated samples are drawn by all cores; which process draws what changes no byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from trainmark.errors import DataError

Task = TypeVar("Task")
Done = TypeVar("Done")


def draw_all(draw: Callable[[Task], Done], tasks: Sequence[Task], *, num_workers: int) -> list[Done]:
    """`draw` stands at the top of its module (or is a partial of such), where a spawned interpreter finds it."""
    if num_workers == 1:
        return [draw(task) for task in tasks]
    # Spawned, not forked: the caller may hold threads of a framework, and a forked copy of those can lock up.
    pool = ProcessPoolExecutor(num_workers, mp_context=get_context("spawn"))
    try:
        return list(pool.map(draw, tasks))
    except BrokenProcessPool as error:
        raise DataError(
            "a process that was drawing samples died",
            why="the system ended it, most often for lack of memory",
            hint="try with fewer workers; with 1 no extra process is started",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)  # after a full disk or Ctrl-C, do not draw the rest first
