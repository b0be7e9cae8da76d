"""The batches of one rank from a workload's samples, as arrays on the host; made in a framework's loader processes.

A sample that cannot be used is replaced in training and left out in evaluation; each problem is reported once.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.report import printable
from trainmark.freed_memory import keep_freed_memory
from trainmark.messages.message import Message
from trainmark.messages.training import bad_sample
from trainmark.workloads.data import Arrays, DataSet, Sample, Samples, UnusableSampleError

_MAX_TRIES = 100
"""Others tried in place of a sample that cannot be used, before the data set is called unusable."""

ProblemList = list[tuple[str, str]]
"""(path, what is wrong)."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """Which samples one rank takes: rank r of n takes the r-th part of each global batch.

    So two ranks together see what one rank with twice the batch sees.
    """

    rank: int
    world_size: int
    batch_size: int
    """Of this rank."""
    seed: int

    @property
    def global_batch(self) -> int:
        return self.batch_size * self.world_size

    def num_steps(self, data: DataSet) -> int:
        """Of an epoch."""
        return len(self._order(data, 0)) // self.global_batch

    def train_batches(self, data: DataSet, *, epoch: int, step: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """(epoch, indices) of each batch of this rank from a step of an epoch on, without end."""
        for number in itertools.count(epoch):
            order = self._order(data, number)
            first = (step if number == epoch else 0) * self.global_batch + self.rank * self.batch_size
            for begin in range(first, len(order), self.global_batch):
                yield number, order[begin : begin + self.batch_size]

    def eval_batches(self, data: DataSet) -> Iterator[NDArray[np.int64]]:
        """Every validation sample once over all ranks; the last batch may be short, none is padded."""
        own = np.arange(data.num_val)[self.rank :: self.world_size]
        return (own[begin : begin + self.batch_size] for begin in range(0, len(own), self.batch_size))

    def _order(self, data: DataSet, epoch: int) -> NDArray[np.int64]:
        return data.order(seed=self.seed, epoch=epoch, global_batch=self.global_batch)


class HostBatches(Protocol):
    def of_loader(self, number: int, num_loaders: int) -> Iterator[tuple[Arrays, ProblemList]]:
        """Every `num_loaders`-th batch, from batch `number` on. The arrays are None where no sample could be used."""


class TrainBatches:
    """From a step of an epoch on, without end."""

    def __init__(self, data: Samples, share: Share, *, epoch: int, step: int) -> None:
        self._data, self._share, self._epoch, self._step = data, share, epoch, step

    def of_loader(self, number: int, num_loaders: int) -> Iterator[tuple[Arrays, ProblemList]]:
        batches = self._share.train_batches(self._data, epoch=self._epoch, step=self._step)
        for epoch, indices in itertools.islice(batches, number, None, num_loaders):
            problems: ProblemList = []
            samples = [self._sample(epoch, index, problems) for index in indices.tolist()]
            yield self._data.collate([sample.arrays for sample in samples]), problems

    def _sample(self, epoch: int, index: int, problems: ProblemList) -> Sample:
        """A sample that cannot be used is replaced by a random other one, so that the batch keeps its size.

        Not by its neighbour: often a whole class is missing, one sample after another.
        """
        for other in self._candidates(epoch, index):
            rng = np.random.default_rng([self._share.seed, epoch, index])
            try:
                sample = self._data.train_sample(other, rng)
            except UnusableSampleError as error:
                problems.append((error.path, f"{error.problem}; left out"))
                continue
            problems.extend(sample.problems)
            return sample
        raise RuntimeError(f"no usable sample among {_MAX_TRIES} taken at random; the last: {problems[-1]}")

    def _candidates(self, epoch: int, index: int) -> Iterator[int]:
        """The others are drawn only when they are needed, which is rare."""
        yield index
        rng = np.random.default_rng([self._share.seed, epoch, index, 1])
        yield from rng.integers(self._data.num_train, size=_MAX_TRIES).tolist()


class EvalBatches:
    def __init__(self, data: Samples, share: Share) -> None:
        self._data, self._share = data, share

    def of_loader(self, number: int, num_loaders: int) -> Iterator[tuple[Arrays, ProblemList]]:
        for indices in itertools.islice(self._share.eval_batches(self._data), number, None, num_loaders):
            problems: ProblemList = []
            samples = [found for index in indices.tolist() if (found := self._sample(index, problems)) is not None]
            if samples:
                yield self._data.collate([sample.arrays for sample in samples]), problems
            elif problems:
                yield None, problems

    def _sample(self, index: int, problems: ProblemList) -> Sample | None:
        try:
            sample = self._data.eval_sample(index)
        except UnusableSampleError as error:
            problems.append((error.path, f"{error.problem}; left out"))
            return None
        problems.extend(sample.problems)
        return sample


def load_in_threads(batches: HostBatches, num_loaders: int) -> Iterator[tuple[Arrays | None, ProblemList]]:
    """One batch of each loader in turn, with one of each in the making; a single loader makes its own when asked."""
    loaders = [batches.of_loader(number, num_loaders) for number in range(num_loaders)]
    if num_loaders == 1:
        yield from loaders[0]
        return
    keep_freed_memory()
    with ThreadPoolExecutor(max_workers=num_loaders, thread_name_prefix="load") as pool:
        pending = deque((loader, pool.submit(next, loader, None)) for loader in loaders)
        while pending:
            loader, future = pending.popleft()
            item = future.result()
            if item is not None:
                pending.append((loader, pool.submit(next, loader, None)))
                yield item


class Problems:
    """Warnings of a feed, from any thread; each file is named once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[Message] = []
        self._known: set[str] = set()

    def note(self, problems: Iterable[tuple[str, str]]) -> None:
        with self._lock:
            for path, problem in problems:
                if path not in self._known:
                    self._known.add(path)
                    self._new.append(bad_sample(path=printable(path), problem=problem))

    def warn(self, warning: Message) -> None:
        with self._lock:
            self._new.append(warning)

    def take(self) -> list[Message]:
        """Those since the last call."""
        with self._lock:
            new, self._new = self._new, []
            return new
