"""HRNet's view of Cityscapes: augmented crops to train on, whole images to evaluate with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.cityscapes.labels import CLASSES
from trainmark.datasets.cityscapes.read import Cityscapes, LoadedPair, UnusablePairError, load_pair, read_cityscapes
from trainmark.workloads.card import Size
from trainmark.workloads.data import Sample, UnusableSampleError, shuffled
from trainmark.workloads.hrnet_w18.augment import augment

MEAN = (0.5, 0.5, 0.5)
STD = (0.5, 0.5, 0.5)


def open_pipeline(root: Path, *, size: Size) -> CityscapesPipeline:
    return CityscapesPipeline(read_cityscapes(root), size)


class CityscapesPipeline:
    num_classes = len(CLASSES)
    truth = None

    def __init__(self, folder: Cityscapes, size: Size) -> None:
        self._folder, self._size = folder, size
        self.num_train, self.num_val = len(folder.train), len(folder.val)

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        return shuffled(self.num_train, seed=seed, epoch=epoch, global_batch=global_batch)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
        pair = self._load(self._folder.train[index])
        image, labels = augment(pair.image, pair.labels, height=self._size.height, width=self._size.width, rng=rng)
        return _as_sample(image, labels, pair)

    def eval_sample(self, index: int) -> Sample:
        pair = self._load(self._folder.val[index])
        return _as_sample(pair.image, pair.labels, pair)

    def _load(self, paths: tuple[str, str]) -> LoadedPair:
        try:
            return load_pair(self._folder.root, *paths)
        except UnusablePairError as error:
            raise UnusableSampleError(error.fault.path, error.fault.problem) from error


def _as_sample(image: NDArray[np.uint8], labels: NDArray[np.uint8], pair: LoadedPair) -> Sample:
    problems = tuple((fault.path, fault.problem) for fault in pair.faults)
    return Sample(arrays={"image": image, "labels": labels}, problems=problems)
