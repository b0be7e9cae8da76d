"""Generated samples are drawn by all cores; which process draws what changes no byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

from trainmark.datasets.workers import choose_num_workers
from trainmark.errors import DataError

Task = TypeVar("Task")
Done = TypeVar("Done")


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some samples of one split: what a worker draws in one go."""

    split: int
    indices: range


def chunks_of(sizes: Sequence[int], per_chunk: int) -> list[Chunk]:
    """`sizes` are those of the splits, by their numbers."""
    return [
        Chunk(split=split, indices=range(size)[start : start + per_chunk])
        for split, size in enumerate(sizes)
        for start in range(0, size, per_chunk)
    ]


def draw_all(draw: Callable[[Task], Done], tasks: Sequence[Task], *, num_workers: int | None) -> list[Done]:
    """`num_workers` is what a person asked for, or None.

    `draw` stands at the top of its module (or is a partial of such), where a spawned interpreter finds it.
    """
    workers = min(choose_num_workers(num_workers), len(tasks))
    if workers == 1:
        return [draw(task) for task in tasks]
    # Spawned, not forked: the caller may hold threads of a framework, and a forked copy of those can lock up.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
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
