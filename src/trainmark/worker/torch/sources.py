"""Data as batches of tensors on the device."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree
from torch.utils.data import DataLoader, IterableDataset

from trainmark.freed_memory import keep_freed_memory
from trainmark.parent_death import serving
from trainmark.worker.images import num_sample_loaders
from trainmark.worker.jpeg_source import JpegSource
from trainmark.worker.samples import EvalBatches, HostBatches, ProblemList, Problems, Share, TrainBatches
from trainmark.worker.torch.images import Batch as ImageBatch
from trainmark.worker.torch.images import CpuImages, Format
from trainmark.worker.torch.workload import Batch, TorchWorkload
from trainmark.workloads.card import Size
from trainmark.workloads.data import JpegFolder, Samples
from trainmark.workloads.torch import to_tensors

_BATCHES_PER_WORKER = 2
_AHEAD = 2
"""Batches of samples on their way to the device while it trains."""
_JPEGS_AHEAD = {"cuda": 10, "cpu": 4}
"""Each step takes one, so that a disk that pauses for a few steps does not hold up training."""
_JPEG_LOADERS = {"cuda": 6, "cpu": 1}
"""For a GPU, reading, decoding and resizing of different batches overlap."""
_SEEDS_APART = 65_537


@dataclass(frozen=True, kw_only=True)
class TorchSources:
    workload: TorchWorkload
    size: Size
    device: torch.device
    input_dtype: torch.dtype
    channels_last: bool

    def make_synthetic(self, share: Share, *, num_classes: int) -> Batch:
        seed = share.seed * _SEEDS_APART + share.rank
        batch = self.workload.synthetic_batch(
            batch_size=share.batch_size,
            size=self.size,
            num_classes=num_classes,
            generator=torch.Generator(self.device).manual_seed(seed),
        )
        layout = torch.channels_last if self.channels_last else torch.contiguous_format

        def as_input(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or tensor.dim() != 4:
                return tensor
            return tensor.to(self.input_dtype).contiguous(memory_format=layout)

        return _pytree.tree_map_only(Tensor, as_input, batch)

    def open_samples(self, data: Samples, share: Share, problems: Problems) -> SampleSource:
        return SampleSource(data, share, problems, self.device)

    def open_jpegs(self, data: JpegFolder, share: Share, problems: Problems) -> JpegSource[ImageBatch]:
        wanted = Format(
            image_size=data.image_size,
            mean=data.mean,
            std=data.std,
            dtype=self.input_dtype,
            channels_last=self.channels_last,
        )
        kind = self.device.type
        num_loaders, num_ahead = _JPEG_LOADERS[kind], _JPEGS_AHEAD[kind]
        if kind == "cpu":
            images = CpuImages(wanted, problems)
            return JpegSource(data, share, images, num_loaders=num_loaders, num_ahead=num_ahead)
        from trainmark.worker.torch.gpu_images import GpuImages

        on_gpu = GpuImages(wanted, problems, self.device, batch_size=share.batch_size, num_loaders=num_loaders)
        return JpegSource(data, share, on_gpu, num_loaders=num_loaders, num_ahead=num_ahead, claim=_claim_batch)


class SampleSource:
    """A workload's samples: made by processes, copied ahead while the device trains."""

    def __init__(self, data: Samples, share: Share, problems: Problems, device: torch.device) -> None:
        self._data, self._share, self._problems, self._device = data, share, problems, device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @property
    def num_ahead(self) -> int:
        return self._num_workers * _BATCHES_PER_WORKER + _AHEAD

    @property
    def _num_workers(self) -> int:
        """On the CPU the cores belong to the training: samples are made between steps, and their cost is measured."""
        return num_sample_loaders() if self._device.type == "cuda" else 0

    def training(self, *, epoch: int, step: int) -> Generator[Batch, None, None]:
        return self._copied_ahead(self._load(TrainBatches(self._data, self._share, epoch=epoch, step=step)))

    def evaluation(self) -> Generator[Batch, None, None]:
        return self._copied_ahead(self._load(EvalBatches(self._data, self._share)))

    def close(self) -> None:
        pass

    def _load(self, batches: HostBatches) -> Iterator[tuple[Batch, ProblemList]]:
        num_workers = self._num_workers
        return iter(
            DataLoader(
                _Tensors(batches),
                batch_size=None,  # one item is a whole batch
                num_workers=num_workers,
                # It draws a seed, which no sample uses: not from the numbers that belong to the training.
                generator=torch.Generator(),
                pin_memory=self._device.type == "cuda",
                prefetch_factor=_BATCHES_PER_WORKER if num_workers else None,
                # Whatever the interpreter prefers: modules cannot be sent to a fresh process. Nothing there uses CUDA.
                multiprocessing_context="fork" if num_workers else None,
                worker_init_fn=partial(_settle, serving(os.getpid())),
            )
        )

    def _copied_ahead(self, batches: Iterator[tuple[Batch, ProblemList]]) -> Generator[Batch, None, None]:
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

    def _copy(self, item: tuple[Batch, ProblemList]) -> Batch:
        batch, problems = item
        self._problems.note(problems)
        if self._stream is None:
            return batch
        with torch.cuda.stream(self._stream):
            return _pytree.tree_map_only(Tensor, lambda tensor: tensor.to(self._device, non_blocking=True), batch)


class _Tensors(IterableDataset[Any]):
    """Loader process k of n makes every n-th batch."""

    def __init__(self, batches: HostBatches) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[Batch, ProblemList]]:
        worker = torch.utils.data.get_worker_info()
        number, num_loaders = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        for arrays, problems in self._batches.of_loader(number, num_loaders):
            yield to_tensors(arrays), problems


def _settle(serve: Callable[[], None], _: int) -> None:
    """A forked process keeps the GPU's memory allocated, so it must end at once with the one that trains."""
    serve()
    keep_freed_memory()
    torch.set_num_threads(1)  # there is already one process per core
    import cv2

    cv2.setNumThreads(0)


def _claim(tensor: Tensor) -> None:
    """Made on another stream, used on this one: the allocator must not reuse the memory too early."""
    tensor.record_stream(torch.cuda.current_stream())


def _claim_batch(batch: ImageBatch) -> ImageBatch:
    for tensor in batch:
        _claim(tensor)
    return batch
