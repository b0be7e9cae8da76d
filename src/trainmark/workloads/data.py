"""What `workloads/<id>/data.py` offers: a data set as that workload sees it, as arrays on the host. No framework.

    open_data(root, *, size) -> Samples | JpegFolder

What a sample looks like follows from (seed, epoch, index) alone. So the same samples are seen however many processes
and devices share the work, and a resumed run sees what it would have seen without the interruption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.imagenet.read import Split

Arrays = Any
"""A batch on the host: numpy arrays in tuples, lists or dicts, nested as the workload likes."""

Boxes = NDArray[np.float64]
"""Rows of (top, left, height, width) in pixels of the decoded image."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    arrays: Mapping[str, NDArray[Any]]
    """By name, as the workload's `collate` expects them; images as uint8."""

    problems: tuple[tuple[str, str], ...] = ()
    """(path, what is wrong) of files of which only a part could be used."""


class UnusableSampleError(Exception):
    """Nothing of the sample can be used: training takes another one instead, evaluation leaves it out."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem


class DataSet(Protocol):
    """What the engine needs to know of any data set."""

    @property
    def num_train(self) -> int: ...
    @property
    def num_val(self) -> int:
        """0 where there is no validation part."""

    @property
    def num_classes(self) -> int: ...

    @property
    def truth(self) -> Any:
        """What `metric.summarise` needs besides the scores, such as COCO's annotations; usually None."""

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        """Indices of the training samples, `global_batch` per step; an incomplete last batch is left out."""


class Samples(DataSet, Protocol):
    """A data set whose samples are made one by one, on the host, in several processes at once."""

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample: ...
    def eval_sample(self, index: int) -> Sample: ...
    def collate(self, samples: Sequence[Mapping[str, NDArray[Any]]]) -> Arrays:
        """The arrays of several samples as one batch."""


class TrainCrops(Protocol):
    def __call__(
        self, sizes: NDArray[np.int64], *, seed: int, epoch: int, indices: NDArray[np.int64]
    ) -> tuple[Boxes, NDArray[np.bool_]]:
        """Which box of each image is seen, and whether it is mirrored; `sizes` has rows of (height, width)."""


class EvalCrops(Protocol):
    def __call__(self, sizes: NDArray[np.int64], *, image_size: int) -> tuple[Boxes, NDArray[np.bool_]]: ...


@dataclass(frozen=True, kw_only=True)
class CropRules:
    """Which part of an image is seen. Module-level functions, because they are sent to decoding processes."""

    train: TrainCrops
    eval: EvalCrops


@dataclass(frozen=True, kw_only=True, eq=False)
class JpegFolder:
    """A data set of JPEG files, cropped, resized to a square and normalised.

    The engine decodes these in whole batches: one by one, as `Samples`, would be too slow to feed a fast GPU.
    """

    root: Path
    train: Split
    val: Split | None
    num_classes: int
    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crops: CropRules
    truth: None = None

    @property
    def num_train(self) -> int:
        return len(self.train.paths)

    @property
    def num_val(self) -> int:
        return len(self.val.paths) if self.val is not None else 0

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        return shuffled(self.num_train, seed=seed, epoch=epoch, global_batch=global_batch)


def shuffled(num_samples: int, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
    """The usual order: every sample once, without the remainder that makes no batch."""
    order = np.random.default_rng([seed, epoch]).permutation(num_samples)
    return order[: num_samples // global_batch * global_batch]
