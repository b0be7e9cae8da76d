"""A folder of JPEG files as batches on the device, prepared ahead by threads while the device trains."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.imagenet.read import Split
from trainmark.worker.images import ImageList, View
from trainmark.worker.samples import Share
from trainmark.workloads.data import JpegFolder

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)


class Images(Protocol[B_co]):
    """What a framework implements: image files to a batch on the device. Called from several threads at once.

    `images.ImageDecoder` does most of it on the CPU.
    """

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> B_co: ...
    def close(self) -> None: ...


class JpegSource(Generic[B]):
    def __init__(
        self,
        data: JpegFolder,
        share: Share,
        images: Images[B],
        *,
        num_loaders: int,
        num_ahead: int,
        claim: Callable[[B], B] = lambda batch: batch,
    ) -> None:
        """`num_loaders` batches are prepared at the same time, at most `num_ahead` are in the making or ready.

        `claim` is called in the training's thread for each batch before it is used.
        """
        self._data, self._share, self._images = data, share, images
        self.num_ahead, self._claim = num_ahead, claim
        self._loaders = ThreadPoolExecutor(max_workers=num_loaders, thread_name_prefix="load")

    def training(self, *, epoch: int, step: int) -> Ahead[B]:
        batches = self._share.train_batches(self._data, epoch=epoch, step=step)
        return self._ahead(self._load(self._data.train, indices, epoch=number) for number, indices in batches)

    def evaluation(self) -> Ahead[B]:
        assert self._data.val is not None
        batches = self._share.eval_batches(self._data)
        return self._ahead(self._load(self._data.val, indices, epoch=None) for indices in batches)

    def close(self) -> None:
        self._loaders.shutdown(cancel_futures=True)
        self._images.close()

    def _load(self, split: Split, indices: NDArray[np.int64], *, epoch: int | None) -> Callable[[], B]:
        view = View(crops=self._data.crops, seed=self._share.seed, epoch=epoch)
        paths = tuple(split.paths[index] for index in indices)
        images = ImageList(root=str(self._data.root), paths=paths, indices=indices, view=view)
        return partial(self._images.prepare, images, split.labels[indices])

    def _ahead(self, loads: Iterator[Callable[[], B]]) -> Ahead[B]:
        return Ahead(loads, self._loaders, self.num_ahead, self._claim)


class Ahead(Generic[B]):
    """The results of loads in order, a few of them in the making."""

    def __init__(
        self, loads: Iterator[Callable[[], B]], pool: ThreadPoolExecutor, num_ahead: int, claim: Callable[[B], B]
    ) -> None:
        self._loads, self._pool, self._num_ahead, self._claim = loads, pool, num_ahead, claim
        self._pending: deque[Future[B]] = deque()
        self._fill()

    def __iter__(self) -> Ahead[B]:
        return self

    def __next__(self) -> B:
        if not self._pending:
            raise StopIteration
        batch = self._pending.popleft().result()
        self._fill()
        return self._claim(batch)

    def close(self) -> None:
        for future in self._pending:
            future.cancel()

    def _fill(self) -> None:
        for load in itertools.islice(self._loads, self._num_ahead - len(self._pending)):
            self._pending.append(self._pool.submit(load))
