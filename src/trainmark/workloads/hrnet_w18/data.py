"""Cityscapes for HRNet: augmented crops for training, whole images for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.cityscapes.labels import CLASSES
from trainmark.datasets.cityscapes.read import (
    Cityscapes,
    LoadedPair,
    UnusablePairError,
    load_pair,
    read_cityscapes,
    read_size,
)
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Sample, UnusableSampleError, shuffled
from trainmark.workloads.hrnet_w18.augment import augment, draw_cut

MEAN = (0.5, 0.5, 0.5)
STD = (0.5, 0.5, 0.5)


def open_data(root: Path, *, size: ImageSize) -> StreetScenes:
    return StreetScenes(read_cityscapes(root), size)


class StreetScenes:
    num_classes = len(CLASSES)
    truth = None

    def __init__(self, folder: Cityscapes, size: ImageSize) -> None:
        self._folder, self._size = folder, size
        self.num_train, self.num_val = len(folder.train), len(folder.val)

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        return shuffled(self.num_train, seed=seed, epoch=epoch, global_batch=global_batch)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
        root, paths = self._folder.root, self._folder.train[index]
        with _unusable():
            size = read_size(root, paths[0])
            cut = draw_cut(size, height=self._size.height, width=self._size.width, rng=rng)
            pair = load_pair(root, *paths, num_rows=cut.num_rows)
        return _as_sample(*augment(pair.image, pair.labels, cut, rng), pair)

    def eval_sample(self, index: int) -> Sample:
        with _unusable():
            pair = load_pair(self._folder.root, *self._folder.val[index])
        return _as_sample(pair.image, pair.labels, pair)

    @staticmethod
    def collate(samples: Sequence[Mapping[str, NDArray[Any]]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Images with their labels, one pair for each image size.

        Training crops all have one size. Evaluation images may differ: padding them to a common size would change what
        the network sees, so images of another size are a group of their own.
        """
        groups: dict[tuple[int, ...], list[Mapping[str, NDArray[Any]]]] = {}
        for sample in samples:
            groups.setdefault(sample["labels"].shape, []).append(sample)
        return [(_stack(group, "image"), _stack(group, "labels")) for group in groups.values()]


@contextmanager
def _unusable() -> Iterator[None]:
    try:
        yield
    except UnusablePairError as error:
        raise UnusableSampleError(error.fault.path, error.fault.problem) from error


def _stack(samples: Sequence[Mapping[str, NDArray[Any]]], name: str) -> NDArray[Any]:
    return np.stack([sample[name] for sample in samples])


def _as_sample(image: NDArray[np.uint8], labels: NDArray[np.uint8], pair: LoadedPair) -> Sample:
    problems = tuple((fault.path, fault.problem) for fault in pair.faults)
    return Sample(arrays={"image": image, "labels": labels}, problems=problems)
