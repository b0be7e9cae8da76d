"""A workload's pipeline as batches on the device: samples made by processes, copied ahead while the device trains.

Rank r of n takes the r-th part of each global batch, so two processes see together what one with the double batch sees.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree
from torch.utils.data import DataLoader, Dataset

from trainmark.datasets.report import printable
from trainmark.parent_death import serving
from trainmark.runfolder.records import WarningCode
from trainmark.units import format_count
from trainmark.worker.torch.feed import FeedRequest
from trainmark.worker.torch.images import num_decoders
from trainmark.worker.torch.workload import Batch
from trainmark.workloads.data import Pipeline, Sample, UnusableSampleError

_MAX_WORKERS = 12
_AHEAD = 2
"""Batches on their way to the device while it trains."""
_MAX_TRIES = 100
"""Others tried in place of a sample that cannot be used, before the data set is called unusable."""

Problems = list[tuple[str, str]]


class PipelineFeed:
    def __init__(self, pipeline: Pipeline, request: FeedRequest) -> None:
        self._pipeline, self._request = pipeline, request
        self.num_classes = pipeline.num_classes
        self.num_samples = pipeline.num_train, pipeline.num_val
        self.can_evaluate = pipeline.num_val > 0
        self.truth = pipeline.truth
        self.steps_per_epoch: int = len(self._order(0)) // request.global_batch
        if self.steps_per_epoch == 0:
            there = format_count(pipeline.num_train, "training samples")
            raise ValueError(f"no batch of {request.global_batch} can be made of {there}")
        self._stream = torch.cuda.Stream(request.device) if request.device.type == "cuda" else None
        self._training: Iterator[Batch] | None = None
        self._next: tuple[int, int] = (0, 0)
        self._warnings: Problems = []
        self._known: set[str] = set()

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """Epochs follow each other without a gap; only a jump starts anew."""
        if self._training is not None and self._next == (epoch, step):
            return
        self._next = (epoch, step)
        self._training = self._copied_ahead(self._loader(_TrainSamples(self._pipeline, self._request, epoch, step)))

    def next_batch(self) -> Batch:
        if self._training is None:
            raise RuntimeError("begin_epoch comes first")
        epoch, step = self._next
        self._next = (epoch, step + 1) if step + 1 < self.steps_per_epoch else (epoch + 1, 0)
        return next(self._training)

    def eval_batches(self) -> Iterator[Batch]:
        # Batches made ready while the clock stands still would be counted as if they had cost nothing.
        self._training = None
        yield from self._copied_ahead(self._loader(_EvalSamples(self._pipeline, self._request)))

    def warnings(self) -> list[tuple[str, str]]:
        new, self._warnings = self._warnings, []
        return [(WarningCode.BAD_SAMPLE, f"{printable(path)}: {problem}") for path, problem in new]

    def close(self) -> None:
        self._training = None  # ends the loader's processes

    def _order(self, epoch: int) -> Any:
        request = self._request
        return self._pipeline.order(seed=request.seed, epoch=epoch, global_batch=request.global_batch)

    def _loader(self, batches: Dataset[tuple[Batch, Problems]]) -> Iterator[tuple[Batch, Problems]]:
        is_cuda = self._request.device.type == "cuda"
        # On the CPU the cores are the training's own: samples are made in between, and their cost is seen.
        num_workers = min(_MAX_WORKERS, num_decoders()) if is_cuda else 0
        return iter(
            DataLoader(
                batches,
                batch_size=None,  # one item is a whole batch: which samples share it is the pipeline's matter
                num_workers=num_workers,
                pin_memory=is_cuda,
                prefetch_factor=2 if num_workers else None,
                # Whatever the interpreter prefers: modules cannot be sent to a fresh process. Nothing there uses CUDA.
                multiprocessing_context="fork" if num_workers else None,
                worker_init_fn=partial(_settle, serving(os.getpid())),
            )
        )

    def _copied_ahead(self, batches: Iterator[tuple[Batch, Problems]]) -> Iterator[Batch]:
        ahead: deque[Batch] = deque(self._copy(item) for item in itertools.islice(batches, _AHEAD))
        while ahead:
            batch = ahead.popleft()
            if batch is None:  # an evaluation batch of which no sample could be used
                ahead.extend(self._copy(item) for item in itertools.islice(batches, 1))
                continue
            if self._stream is not None:
                torch.cuda.current_stream().wait_stream(self._stream)
                _pytree.tree_map_only(Tensor, _claim, batch)
            ahead.extend(self._copy(item) for item in itertools.islice(batches, 1))
            yield batch

    def _copy(self, item: tuple[Batch, Problems]) -> Batch:
        batch, problems = item
        self._note(problems)
        device = self._request.device
        if self._stream is None:
            return batch
        with torch.cuda.stream(self._stream):
            return _pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device, non_blocking=True), batch)

    def _note(self, problems: Problems) -> None:
        for path, problem in problems:
            if path not in self._known:
                self._known.add(path)
                self._warnings.append((path, problem))


class _TrainSamples(torch.utils.data.IterableDataset[tuple[Batch, Problems]]):
    """The batches of this rank from a step of an epoch on, for ever; loader process k of n makes each n-th."""

    def __init__(self, pipeline: Pipeline, request: FeedRequest, epoch: int, step: int) -> None:
        self._pipeline, self._epoch, self._step = pipeline, epoch, step
        self._workload, self._seed = request.workload, request.seed
        self._batch_size, self._global_batch = request.batch_size, request.global_batch
        self._first = request.rank * request.batch_size

    def __iter__(self) -> Iterator[tuple[Batch, Problems]]:
        worker = torch.utils.data.get_worker_info()
        every, mine = (worker.num_workers, worker.id) if worker is not None else (1, 0)
        numbered = enumerate(self._indices())
        for number, (epoch, indices) in numbered:
            if number % every == mine:
                yield self._make(epoch, indices)

    def _indices(self) -> Iterator[tuple[int, list[int]]]:
        first_step = self._step
        for epoch in itertools.count(self._epoch):
            order = self._pipeline.order(seed=self._seed, epoch=epoch, global_batch=self._global_batch)
            for begin in range(first_step * self._global_batch + self._first, len(order), self._global_batch):
                yield epoch, order[begin : begin + self._batch_size].tolist()
            first_step = 0

    def _make(self, epoch: int, indices: list[int]) -> tuple[Batch, Problems]:
        problems: Problems = []
        samples = [self._sample(epoch, index, problems) for index in indices]
        return self._workload.collate([sample.arrays for sample in samples]), problems

    def _sample(self, epoch: int, index: int, problems: Problems) -> Sample:
        """A sample that cannot be used is replaced by any that can, so that the batch keeps its size.

        Not by its neighbour: what is missing is often a whole class, one after another.
        """
        for other in self._candidates(epoch, index):
            rng = np.random.default_rng([self._seed, epoch, index])
            try:
                sample = self._pipeline.train_sample(other, rng)
            except UnusableSampleError as error:
                problems.append((error.path, f"{error.problem}; left out"))
                continue
            problems.extend(sample.problems)
            return sample
        raise RuntimeError(f"no usable sample among {_MAX_TRIES} taken at random; the last: {problems[-1]}")

    def _candidates(self, epoch: int, index: int) -> Iterator[int]:
        """The others are drawn only where they are wanted, which is next to never."""
        yield index
        rng = np.random.default_rng([self._seed, epoch, index, 1])
        yield from rng.integers(self._pipeline.num_train, size=_MAX_TRIES).tolist()


class _EvalSamples(torch.utils.data.IterableDataset[tuple[Batch, Problems]]):
    def __init__(self, pipeline: Pipeline, request: FeedRequest) -> None:
        self._pipeline, self._workload = pipeline, request.workload
        mine = range(pipeline.num_val)[request.rank :: request.world_size]
        self._chunks = [mine[at : at + request.batch_size] for at in range(0, len(mine), request.batch_size)]

    def __iter__(self) -> Iterator[tuple[Batch, Problems]]:
        worker = torch.utils.data.get_worker_info()
        every, mine = (worker.num_workers, worker.id) if worker is not None else (1, 0)
        for chunk in self._chunks[mine::every]:
            problems: Problems = []
            samples = [sample for index in chunk if (sample := self._sample(index, problems)) is not None]
            if samples:
                yield self._workload.collate([sample.arrays for sample in samples]), problems
            elif problems:
                yield None, problems

    def _sample(self, index: int, problems: Problems) -> Sample | None:
        try:
            sample = self._pipeline.eval_sample(index)
        except UnusableSampleError as error:
            problems.append((error.path, f"{error.problem}; left out"))
            return None
        problems.extend(sample.problems)
        return sample


def _settle(serve: Callable[[], None], _: int) -> None:
    """A forked process keeps the GPU's memory taken, so it ends at once with the one that trains, not seconds later."""
    serve()
    torch.set_num_threads(1)  # there is a process for each core already
    import cv2

    cv2.setNumThreads(0)


def _claim(tensor: Tensor) -> None:
    """Made on the copying stream, used on this one: the allocator must not reuse the memory too early."""
    tensor.record_stream(torch.cuda.current_stream())
