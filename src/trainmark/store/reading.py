"""Reads many run folders, in several processes if that is faster: a folder takes milliseconds, mostly to analyse."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from trainmark.host import num_cores
from trainmark.parent_death import die_with
from trainmark.store.columns import Records

Read = Callable[[str], Records | None]
_FEW = 400
"""Less than this is read in this process: starting others takes longer."""
_MOST_PROCESSES = 8
_CHUNK = 25
_COLLECT_AFTER = 100_000
"""New objects until Python looks for cycles, of which reading makes few."""


def read_many(read: Read, names: Sequence[str]) -> Iterator[Records | None]:
    """In the order of the names. `read` can be pickled."""
    num_processes = min(num_cores(), _MOST_PROCESSES, len(names) // (_FEW // 2))
    done = 0
    if num_processes > 1:
        try:
            for records in _read_in_parallel(read, names, num_processes):
                yield records
                done += 1
        except (BrokenProcessPool, OSError):
            pass  # no more processes or memory: the rest is read here
    for name in names[done:]:
        yield read(name)


def _read_in_parallel(read: Read, names: Sequence[str], num_processes: int) -> Iterator[Records | None]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(num_processes, mp_context=context, initializer=_prepare, initargs=(os.getpid(),))
    try:
        yield from pool.map(read, names, chunksize=_CHUNK)
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare(parent: int) -> None:
    """Ctrl-C is for the parent, which then ends the pool; whoever kills the parent ends the pool too."""
    gc.set_threshold(_COLLECT_AFTER)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
