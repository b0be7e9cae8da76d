"""How the work on a data set is divided: into splits, chunks and worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

from trainmark.errors import DataError
from trainmark.units import format_count


def choose_num_workers(asked: int | None) -> int:
    if asked is None:
        # The cores this process may use, which under Slurm or taskset are fewer than the machine has.
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked < 1:
        raise DataError(f"{asked} workers cannot do anything", hint="give 1 or more, or leave it out for one per core")
    return asked


SPLITS = ("train", "val")
"""The position is the split's number in every sample's seed."""


def split_sizes(
    number: int, val_fraction: float, *, num_classes: int | None = None, what: str = "images"
) -> tuple[int, int]:
    """Each split has one of every class, or is empty because no validation part was asked for."""
    if not 0 <= val_fraction < 1:
        raise DataError(f"a validation part of {val_fraction} cannot be made", hint="give 0 (none) or more, below 1")
    num_val = round(number * val_fraction)
    sizes = (number - num_val, num_val)
    for split, size in zip(SPLITS, sizes, strict=True):
        if size < (num_classes or 1) and (split == "train" or val_fraction > 0):
            classes = f" for {format_count(num_classes, 'classes')}" if num_classes else ""
            raise DataError(
                f"{format_count(number, what)} {'is' if number == 1 else 'are'} too few{classes}",
                why=f"{split} would get {max(size, 0)}" + (" and have empty classes" if num_classes else ""),
                hint=f"ask for more {what}{', for fewer classes' if num_classes else ''} or for no validation part",
            )
    return sizes


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
