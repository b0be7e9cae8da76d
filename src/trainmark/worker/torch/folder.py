"""An ImageNet-style folder of JPEGs as batches on the device, prepared ahead by threads while the device trains.

Which images, which part of them and in what order follows from (seed, epoch, index) alone: rank r of n takes the r-th
part of each global batch, so two processes see together what one with the double batch sees.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray

from trainmark.datasets.imagenet.read import Split, read_folder
from trainmark.units import format_count
from trainmark.worker.images import ImageList, View
from trainmark.worker.torch.feed import FeedRequest
from trainmark.worker.torch.images import Batch, CpuImages, Format, Images, Problems

_AHEAD = {"cuda": 10, "cpu": 4}
"""Batches in the making or ready. Each step takes one, so a hiccup of the disk of a few steps is not seen."""
_LOADERS = {"cuda": 6, "cpu": 1}
"""Batches prepared at the same time: for a GPU reading, decoding and resizing of different batches overlap."""

Load = Callable[[], Batch]
Indices = NDArray[np.int64]


class FolderFeed:
    def __init__(
        self,
        root: Path,
        *,
        view: ModuleType,
        request: FeedRequest,
    ) -> None:
        folder = read_folder(root)
        device, batch_size, world_size = request.device, request.batch_size, request.world_size
        self._root, self._train, self._val = root, folder.train, folder.val
        self._workload, self._device, self._seed = request.card.name, device, request.seed
        self._batch_size, self._rank, self._world_size = batch_size, request.rank, world_size
        self.steps_per_epoch: int = len(folder.train.paths) // (batch_size * world_size)
        if self.steps_per_epoch == 0:
            there = format_count(len(folder.train.paths), "training images")
            raise ValueError(f"no batch of {batch_size * world_size} can be made of {there}")
        self._problems = Problems()
        self._images = _build_images(view, self._problems, request)
        self._loaders = ThreadPoolExecutor(max_workers=_LOADERS[device.type], thread_name_prefix="load")
        self._training: _Ahead | None = None
        self._next: tuple[int, int] = (0, 0)
        self.num_classes = len(folder.classes)
        self.num_samples = len(folder.train.paths), len(folder.val.paths) if folder.val is not None else 0
        self.can_evaluate = folder.val is not None
        self.truth = None

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """Epochs follow each other without a gap; only a jump starts anew."""
        if self._training is not None and self._next == (epoch, step):
            return
        if self._training is not None:
            self._training.stop()
        self._next = (epoch, step)
        epochs = (self._train_loads(number) for number in itertools.count(epoch))
        self._training = self._ahead(itertools.islice(itertools.chain.from_iterable(epochs), step, None))

    def next_batch(self) -> Batch:
        if self._training is None:
            raise RuntimeError("begin_epoch comes first")
        epoch, step = self._next
        self._next = (epoch, step + 1) if step + 1 < self.steps_per_epoch else (epoch + 1, 0)
        return self._claim(next(self._training))

    def eval_batches(self) -> Iterator[Batch]:
        if self._val is None:
            return
        if self._training is not None:
            # Batches made ready while the clock stands still would be counted as if they had cost nothing.
            self._training.stop()
            self._training = None
        mine = np.arange(len(self._val.paths))[self._rank :: self._world_size]
        chunks = (mine[begin : begin + self._batch_size] for begin in range(0, len(mine), self._batch_size))
        for batch in self._ahead(self._loads(self._val, chunks, epoch=None)):
            yield self._claim(batch)

    def warnings(self) -> list[tuple[str, str]]:
        return self._problems.take()

    def close(self) -> None:
        if self._training is not None:
            self._training.stop()
        self._loaders.shutdown(cancel_futures=True)
        self._images.close()

    def _train_loads(self, epoch: int) -> Iterator[Load]:
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._train.paths))
        begins = ((step * self._world_size + self._rank) * self._batch_size for step in range(self.steps_per_epoch))
        chunks = (order[begin : begin + self._batch_size] for begin in begins)
        return self._loads(self._train, chunks, epoch=epoch)

    def _loads(self, split: Split, chunks: Iterator[Indices], *, epoch: int | None) -> Iterator[Load]:
        view = View(workload=self._workload, seed=self._seed, epoch=epoch)
        for chunk in chunks:
            paths = tuple(split.paths[index] for index in chunk)
            images = ImageList(root=str(self._root), paths=paths, indices=chunk, view=view)
            yield partial(self._images.prepare, images, split.labels[chunk])

    def _ahead(self, loads: Iterator[Load]) -> _Ahead:
        return _Ahead(loads, self._loaders, _AHEAD[self._device.type])

    def _claim(self, batch: Batch) -> Batch:
        """Made on a loader's stream, used on this one: the allocator must not reuse the memory too early."""
        if self._device.type == "cuda":
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
        return batch


class _Ahead:
    """The results of loads in order, a few of them in the making."""

    def __init__(self, loads: Iterator[Load], pool: ThreadPoolExecutor, num_ahead: int) -> None:
        self._loads, self._pool, self._num_ahead = loads, pool, num_ahead
        self._pending: deque[Future[Batch]] = deque()
        self._fill()

    def __iter__(self) -> _Ahead:
        return self

    def __next__(self) -> Batch:
        if not self._pending:
            raise StopIteration
        batch = self._pending.popleft().result()
        self._fill()
        return batch

    def stop(self) -> None:
        for future in self._pending:
            future.cancel()

    def _fill(self) -> None:
        for load in itertools.islice(self._loads, self._num_ahead - len(self._pending)):
            self._pending.append(self._pool.submit(load))


def _build_images(view: ModuleType, problems: Problems, request: FeedRequest) -> Images:
    wanted = Format(
        image_size=request.size.height,
        mean=view.MEAN,
        std=view.STD,
        dtype=request.input_dtype,
        channels_last=request.channels_last,
    )
    if request.device.type == "cpu":
        return CpuImages(wanted, problems)
    from trainmark.worker.torch.gpu_images import GpuImages

    num_loaders = _LOADERS["cuda"]
    return GpuImages(wanted, problems, request.device, batch_size=request.batch_size, num_loaders=num_loaders)
