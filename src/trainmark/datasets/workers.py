"""How the work on a data set is divided: into splits, chunks and worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

from trainmark.errors import DataError
from trainmark.host import num_cores
from trainmark.units import format_count


def choose_num_workers(asked: int | None) -> int:
    if asked is None:
        return num_cores()
    if asked < 1:
        raise DataError(f"--workers: must be an integer >= 1, got {asked}", hint="leave it out for one per core")
    return asked


SPLITS = ("train", "val")
"""The index of a split is part of the seed of each of its samples."""


def split_sizes(
    number: int, val_fraction: float, *, num_classes: int | None = None, what: str = "images"
) -> tuple[int, int]:
    """Sizes of train and val. Each has at least one sample of every class; val is empty if `val_fraction` is 0."""
    if not 0 <= val_fraction < 1:
        raise DataError(
            f"--val-fraction: must be at least 0 and below 1, got {val_fraction}", hint="0 makes no val split"
        )
    num_val = round(number * val_fraction)
    sizes = (number - num_val, num_val)
    for split, size in zip(SPLITS, sizes, strict=True):
        if size < (num_classes or 1) and (split == "train" or val_fraction > 0):
            classes = f" for {format_count(num_classes, 'classes')}" if num_classes else ""
            raise DataError(
                f"{format_count(number, what)} {'is' if number == 1 else 'are'} too few{classes}",
                why=f"{split} would get {max(size, 0)}" + (" and have empty classes" if num_classes else ""),
                hint=f"use more {what}{', fewer classes' if num_classes else ''} or --val-fraction 0",
            )
    return sizes


Task = TypeVar("Task")
Done = TypeVar("Done")


def refuse_bad_drawing(*, seed: int, size: tuple[int, int], sides: tuple[int, int]) -> None:
    """`size` is (height, width); `sides` are the smallest and the largest side allowed."""
    if seed < 0:
        raise DataError(f"--seed: must be an integer >= 0, got {seed}", hint="leave it out for 0")
    if not all(sides[0] <= side <= sides[1] for side in size):
        raise DataError(
            f"cannot draw images of {size[1]} x {size[0]} pixels", hint=f"give sides from {sides[0]} to {sides[1]}"
        )


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Samples of one split that a worker draws in one task."""

    split: int
    indices: range


def chunks_of(sizes: Sequence[int], per_chunk: int) -> list[Chunk]:
    """`sizes` are the sizes of the splits."""
    return [
        Chunk(split=split, indices=range(size)[start : start + per_chunk])
        for split, size in enumerate(sizes)
        for start in range(0, size, per_chunk)
    ]


def draw_all(draw: Callable[[Task], Done], tasks: Sequence[Task], *, num_workers: int | None) -> list[Done]:
    """Runs `draw` for each task in worker processes. Which process draws which task does not change any byte.

    `draw` must be a top-level function or a partial of one, because spawned processes import it.
    """
    workers = min(choose_num_workers(num_workers), len(tasks))
    if workers == 1:
        return [draw(task) for task in tasks]
    # Spawned, not forked: the caller may have threads of a framework, and a forked process can deadlock on them.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        return list(pool.map(draw, tasks))
    except BrokenProcessPool as error:
        raise DataError(
            "a worker process died",
            why="the system killed it, most often for lack of memory",
            hint="use fewer --workers; 1 starts no extra process",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)  # after a full disk or Ctrl-C, do not draw the rest
