"""ICDAR 2015 for PSENet: augmented crops with label maps for training, whole images with quads for evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.icdar2015.read import LabelledImage, UnusableImageError, read_folder, read_image
from trainmark.datasets.icdar2015.scan import FolderScan, SplitScan
from trainmark.datasets.icdar2015.words import Word
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Sample, UnusableSampleError, shuffled
from trainmark.workloads.psenet.augment import apply, eval_view, jitter_colours, train_view, warp
from trainmark.workloads.psenet.labels import draw_labels

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
_MAX_WORDS = 200
"""Of a training image; the public code leaves out the rest."""
_IGNORED_IN_TRAINING = "#"
"""First character of a word that is not trained on; evaluation ignores `###` only."""


def open_data(root: Path, *, size: ImageSize) -> TextImages:
    return TextImages(folder=read_folder(root), side=size.height)


@dataclass(frozen=True, kw_only=True)
class TextImages:
    folder: FolderScan
    side: int
    """Of the training crop, and the shorter side of an evaluation image."""

    num_classes = 1
    truth = None  # the words are part of the samples

    @property
    def num_train(self) -> int:
        return len(self.folder.train.images)

    @property
    def num_val(self) -> int:
        return len(self.folder.val.images) if self.folder.val is not None else 0

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        return shuffled(self.num_train, seed=seed, epoch=epoch, global_batch=global_batch)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
        """`image` (side x side x 3) and `labels` (side x side), one byte of packed maps per pixel."""
        labelled = self._read(self.folder.train, index)
        height, width = labelled.pixels.shape[:2]
        words = labelled.words[:_MAX_WORDS]
        quads = _quads(words)
        is_ignored = np.array([word.text.startswith(_IGNORED_IN_TRAINING) for word in words], dtype=bool)
        matrix = train_view(rng, height=height, width=width, side=self.side, quads=quads)
        image = jitter_colours(rng, warp(labelled.pixels, matrix, height=self.side, width=self.side))
        outline = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], dtype=np.float64)
        corners = np.rint(apply(matrix, quads)).astype(np.int32)
        labels = draw_labels(
            list(corners[~is_ignored]),
            list(corners[is_ignored]),
            frame=np.rint(apply(matrix, outline)).astype(np.int32),
            side=self.side,
        )
        return Sample(arrays={"image": image, "labels": labels}, problems=labelled.problems)

    def eval_sample(self, index: int) -> Sample:
        """`image`, whose size follows from the photograph's; `quads` and `ignored` in pixels of the photograph."""
        assert self.folder.val is not None
        labelled = self._read(self.folder.val, index)
        height, width = labelled.pixels.shape[:2]
        matrix, sized = eval_view(height=height, width=width, side=self.side)
        arrays: dict[str, NDArray[Any]] = {
            "image": warp(labelled.pixels, matrix, height=sized[0], width=sized[1]),
            "quads": _quads(labelled.words),
            "ignored": np.array([word.is_ignored for word in labelled.words], dtype=bool),
            "scale": np.array([matrix[0, 0], matrix[1, 1]]),
        }
        return Sample(arrays=arrays, problems=labelled.problems)

    @staticmethod
    def collate(samples: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
        """Training crops have one size and are stacked; whole images differ in size and stay separate."""
        if "labels" in samples[0]:
            return {
                "images": np.stack([sample["image"] for sample in samples]),
                "labels": np.stack([sample["labels"] for sample in samples]),
            }
        names = {"images": "image", "quads": "quads", "ignored": "ignored", "scale": "scale"}
        return {name: [sample[key] for sample in samples] for name, key in names.items()}

    def _read(self, split: SplitScan, index: int) -> LabelledImage:
        try:
            return read_image(self.folder.root, split, index)
        except UnusableImageError as error:
            raise UnusableSampleError(error.path, error.problem) from error


def _quads(words: Sequence[Word]) -> NDArray[np.float64]:
    return np.array([word.quad for word in words], dtype=np.float64).reshape(-1, 4, 2)
