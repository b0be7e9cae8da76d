"""An ImageNet-style folder of JPEGs as batches on the device, prepared ahead by threads while the device trains.

Which images, which part of them and in what order follows from (seed, epoch, index) alone: rank r of n takes the r-th
part of each global batch, so two processes see together what one with the double batch sees.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainmark.datasets.faults import printable
from trainmark.datasets.imagenet.read import Split, read_folder
from trainmark.worker.engine_torch_feed import FeedRequest
from trainmark.worker.engine_torch_images import CpuImages, Format, Images, Problems, View

_AHEAD = 4
"""Batches in the making or ready. Each step takes one, so a hiccup of the disk of a few steps is not seen."""
_READ_CHUNK = 16
_LOADERS = {"cuda": 3, "cpu": 1}
"""Batches prepared at the same time: on a GPU reading, decoding and resizing of different batches overlap."""

Batch = tuple[Tensor, Tensor]
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
        self._view, self._device, self._seed = view, device, request.seed
        self._batch_size, self._rank, self._world_size = batch_size, request.rank, world_size
        self._problems = Problems()
        self._images = _build_images(_wanted_format(view, request), self._problems, device)
        self._readers = ThreadPoolExecutor(max_workers=8, thread_name_prefix="read")
        self._loaders = ThreadPoolExecutor(max_workers=_LOADERS[device.type], thread_name_prefix="load")
        self._training: _Ahead | None = None
        self._next: tuple[int, int] = (0, 0)
        self.num_classes = len(folder.classes)
        self.can_evaluate = folder.val is not None
        self.truth = None
        self.steps_per_epoch: int = len(folder.train.paths) // (batch_size * world_size)
        if self.steps_per_epoch == 0:
            wanted_images = batch_size * world_size
            raise ValueError(f"{len(folder.train.paths)} training images make no batch of {wanted_images}")

    def begin_epoch(self, epoch: int, *, step: int = 0) -> None:
        """Epochs follow each other without a gap; only a jump starts anew."""
        if self._training is not None and self._next == (epoch, step):
            return
        if self._training is not None:
            self._training.stop()
        self._next = (epoch, step)
        epochs = (self._train_loads(number) for number in itertools.count(epoch))
        self._training = _Ahead(itertools.islice(itertools.chain.from_iterable(epochs), step, None), self._loaders)

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
        for batch in _Ahead(self._loads(self._val, chunks, lambda _: self._view.eval_view), self._loaders):
            yield self._claim(batch)

    def warnings(self) -> list[tuple[str, str]]:
        return [("bad-sample", f"{printable(path)}: {problem}") for path, problem in self._problems.take()]

    def close(self) -> None:
        if self._training is not None:
            self._training.stop()
        for pool in (self._loaders, self._readers):
            pool.shutdown(cancel_futures=True)
        self._images.close()

    def _train_loads(self, epoch: int) -> Iterator[Load]:
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._train.paths))
        begins = ((step * self._world_size + self._rank) * self._batch_size for step in range(self.steps_per_epoch))
        chunks = (order[begin : begin + self._batch_size] for begin in begins)

        def view_of(chunk: Indices) -> View:
            return lambda sizes: self._view.train_view(sizes, seed=self._seed, epoch=epoch, indices=chunk)

        return self._loads(self._train, chunks, view_of)

    def _loads(self, split: Split, chunks: Iterator[Indices], view_of: Callable[[Indices], View]) -> Iterator[Load]:
        for chunk in chunks:
            yield lambda chunk=chunk: self._load(split, chunk, view_of(chunk))  # type: ignore[misc]

    def _load(self, split: Split, chunk: Indices, view: View) -> Batch:
        paths = [split.paths[index] for index in chunk]
        parts = [paths[at : at + _READ_CHUNK] for at in range(0, len(paths), _READ_CHUNK)]
        files = [data for part in self._readers.map(self._read_files, parts) for data in part]
        inputs = self._images.prepare(paths, files, view)
        return inputs, torch.from_numpy(split.labels[chunk]).to(self._device)

    def _read_files(self, paths: list[str]) -> list[bytes]:
        return [read_file(f"{self._root}/{path}") for path in paths]

    def _claim(self, batch: Batch) -> Batch:
        """Made on a loader's stream, used on this one: the allocator must not reuse the memory too early."""
        if self._device.type == "cuda":
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
        return batch


class _Ahead:
    """The results of loads in order, a few of them in the making."""

    def __init__(self, loads: Iterator[Load], pool: ThreadPoolExecutor) -> None:
        self._loads, self._pool = loads, pool
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
        for load in itertools.islice(self._loads, _AHEAD - len(self._pending)):
            self._pending.append(self._pool.submit(load))


def read_file(path: str) -> bytes:
    """Half the processor time of pathlib's read_bytes, which counts at thousands of files a second."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""  # named among the bad images when it is decoded; one lost file never ends a run
    try:
        data = os.read(descriptor, os.fstat(descriptor).st_size)
    except OSError:
        data = b""
    finally:
        os.close(descriptor)
    return data


def _wanted_format(view: ModuleType, request: FeedRequest) -> Format:
    return Format(
        image_size=request.size.height,
        mean=view.MEAN,
        std=view.STD,
        dtype=request.input_dtype,
        channels_last=request.channels_last,
    )


def _build_images(wanted: Format, problems: Problems, device: torch.device) -> Images:
    if device.type == "cpu":
        return CpuImages(wanted, problems)
    from trainmark.worker.engine_torch_nvjpeg import GpuImages

    return GpuImages(wanted, problems, device)
