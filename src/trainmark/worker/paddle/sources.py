"""Data as batches of tensors on the device."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

from trainmark.worker.images import num_sample_loaders
from trainmark.worker.jpeg_source import JpegSource
from trainmark.worker.paddle.images import Batch as ImageBatch
from trainmark.worker.paddle.images import DecodedImages
from trainmark.worker.paddle.workload import Batch
from trainmark.worker.samples import (
    EvalBatches,
    HostBatches,
    ProblemList,
    Problems,
    Share,
    TrainBatches,
    load_in_threads,
)
from trainmark.workloads.card import Size
from trainmark.workloads.data import Arrays, JpegFolder, Samples
from trainmark.workloads.registry import load_module

_AHEAD = 2
"""Batches of samples on their way to the device while it trains."""
_JPEGS_AHEAD = 4


def map_leaves(leaf: Callable[[Any], Any], nested: Any, *, of: type) -> Any:
    """The same nesting of dicts, lists and tuples with every `of` replaced."""
    if isinstance(nested, dict):
        return {key: map_leaves(leaf, value, of=of) for key, value in nested.items()}
    if isinstance(nested, list | tuple):
        return type(nested)(map_leaves(leaf, value, of=of) for value in nested)
    return leaf(nested) if isinstance(nested, of) else nested


def to_tensors(arrays: Arrays) -> Batch:
    """The same nesting on the device."""
    return map_leaves(paddle.to_tensor, arrays, of=np.ndarray)


@dataclass(frozen=True, kw_only=True)
class PaddleSources:
    workload: str
    size: Size
    device_type: str

    def make_synthetic(self, share: Share, *, num_classes: int) -> Batch:
        rng = np.random.default_rng([share.seed, share.rank])
        make_batch = load_module(self.workload, "synthetic").make_batch
        arrays = make_batch(rng, batch_size=share.batch_size, size=self.size, num_classes=num_classes)
        return to_tensors(arrays)

    def open_samples(self, data: Samples, share: Share, problems: Problems) -> SampleSource:
        # On the CPU the cores belong to the training: samples are made between steps, and their cost is measured.
        num_loaders = num_sample_loaders() if self.device_type == "cuda" else 1
        return SampleSource(data, share, problems, num_loaders=num_loaders)

    def open_jpegs(self, data: JpegFolder, share: Share, problems: Problems) -> JpegSource[ImageBatch]:
        return JpegSource(data, share, DecodedImages(data, problems), num_loaders=1, num_ahead=_JPEGS_AHEAD)


class SampleSource:
    """A workload's samples, copied ahead while the device trains.

    For a GPU they are made by threads: what takes time (decoding, resizing) releases the interpreter's lock, and the
    loader processes of Paddle do not end cleanly when a stream without end is closed.
    """

    def __init__(self, data: Samples, share: Share, problems: Problems, *, num_loaders: int) -> None:
        self._data, self._share, self._problems, self._num_loaders = data, share, problems, num_loaders

    @property
    def num_ahead(self) -> int:
        return (self._num_loaders if self._num_loaders > 1 else 0) + _AHEAD

    def training(self, *, epoch: int, step: int) -> Generator[Batch, None, None]:
        return self._copied_ahead(self._load(TrainBatches(self._data, self._share, epoch=epoch, step=step)))

    def evaluation(self) -> Generator[Batch, None, None]:
        return self._copied_ahead(self._load(EvalBatches(self._data, self._share)))

    def close(self) -> None:
        pass

    def _load(self, batches: HostBatches) -> Iterator[tuple[Arrays, ProblemList]]:
        return load_in_threads(batches, self._num_loaders)

    def _copied_ahead(self, batches: Iterator[tuple[Arrays, ProblemList]]) -> Generator[Batch, None, None]:
        ahead: deque[Batch] = deque(self._copy(item) for item in itertools.islice(batches, _AHEAD))
        while ahead:
            batch = ahead.popleft()
            ahead.extend(self._copy(item) for item in itertools.islice(batches, 1))
            if batch is not None:  # None: an evaluation batch of which no sample could be used
                yield batch

    def _copy(self, item: tuple[Arrays, ProblemList]) -> Batch:
        arrays, problems = item
        self._problems.note(problems)
        return to_tensors(arrays)
