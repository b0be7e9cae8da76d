"""Data as batches on the device."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.worker.images import num_sample_loaders
from trainmark.worker.jax.images import Batch as ImageBatch
from trainmark.worker.jax.images import DecodedImages, Format
from trainmark.worker.jax.placement import Placement
from trainmark.worker.jax.workload import Batch, JaxWorkload
from trainmark.worker.jpeg_source import JpegSource
from trainmark.worker.samples import (
    EvalBatches,
    HostBatches,
    Problems,
    Share,
    TrainBatches,
    load_in_threads,
)
from trainmark.workloads.card import Size
from trainmark.workloads.data import Arrays, JpegFolder, Samples

_JPEGS_AHEAD = {"gpu": 10, "cpu": 4}
"""Each step takes one, so that a disk that pauses for a few steps does not hold up training."""
_JPEG_LOADERS = {"gpu": 6, "cpu": 1}
"""For a GPU, reading, decoding and copying of different batches overlap."""


@dataclass(frozen=True, kw_only=True)
class JaxSources:
    workload: JaxWorkload
    size: Size
    placement: Placement

    def make_synthetic(self, share: Share, *, num_classes: int) -> Batch:
        batch = self.workload.synthetic_batch(
            batch_size=share.batch_size,
            size=self.size,
            num_classes=num_classes,
            rng=np.random.default_rng([share.seed, share.rank]),
        )
        return self.placement.put_own(batch)

    def open_samples(self, data: Samples, share: Share, problems: Problems) -> SampleSource:
        return SampleSource(data, share, problems, self.placement)

    def open_jpegs(self, data: JpegFolder, share: Share, problems: Problems) -> JpegSource[ImageBatch]:
        wanted = Format(image_size=data.image_size, mean=data.mean, std=data.std)
        images = DecodedImages(wanted, problems, self.placement)
        platform = self.placement.device.platform
        num_loaders, num_ahead = _JPEG_LOADERS[platform], _JPEGS_AHEAD[platform]
        return JpegSource(data, share, images, num_loaders=num_loaders, num_ahead=num_ahead)


class SampleSource:
    """A workload's samples. Batches of training are copied to the device, those of evaluation stay on the host.

    For a GPU they are made ahead by threads: JAX has threads of its own, so its process must not be forked, and what
    takes time (decoding, resizing) releases the interpreter's lock.
    """

    def __init__(self, data: Samples, share: Share, problems: Problems, placement: Placement) -> None:
        self._data, self._share, self._problems, self._placement = data, share, problems, placement
        # On the CPU the cores belong to the training: samples are made between steps, and their cost is measured.
        self._num_loaders = 1 if placement.device.platform == "cpu" else num_sample_loaders()

    @property
    def num_ahead(self) -> int:
        return self._num_loaders if self._num_loaders > 1 else 0

    def training(self, *, epoch: int, step: int) -> Generator[Batch, None, None]:
        for batch in self._load(TrainBatches(self._data, self._share, epoch=epoch, step=step)):
            yield self._placement.put_own(batch)

    def evaluation(self) -> Generator[Batch, None, None]:
        for batch in self._load(EvalBatches(self._data, self._share)):
            if batch is not None:  # None: no sample of the batch could be used
                yield batch

    def close(self) -> None:
        pass

    def _load(self, batches: HostBatches) -> Iterator[Arrays]:
        for arrays, problems in load_in_threads(batches, self._num_loaders):
            self._problems.note(problems)
            yield arrays
