"""ImageNet as ResNet-50 sees it: which part of an image, mirrored or not, and how it is normalised.

The random numbers of a sample depend on (seed, epoch, index) alone, so the same images are seen however many processes
and threads share the work.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.imagenet.read import read_folder
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Boxes, CropRules, JpegFolder

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
EVAL_SHORT_SIDE_RATIO = 256 / 224

_SCALE = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)
_TRIES = 10


def open_data(root: Path, *, size: ImageSize) -> JpegFolder:
    folder = read_folder(root)
    return JpegFolder(
        root=root,
        train=folder.train,
        val=folder.val,
        num_classes=len(folder.classes),
        image_size=size.height,
        mean=MEAN,
        std=STD,
        crops=CROPS,
    )


def train_view(
    sizes: NDArray[np.int64], *, seed: int, epoch: int, indices: NDArray[np.int64]
) -> tuple[Boxes, NDArray[np.bool_]]:
    """Random resized crops and flips for images of `sizes` rows (height, width); the whole batch at once."""
    uniforms = _uniforms(seed, epoch, indices, 4 * _TRIES + 1)
    area, ratio, down, right = np.split(uniforms[:, :-1], 4, axis=1)
    height, width = sizes[:, :1], sizes[:, 1:]
    area = height * width * (_SCALE[0] + (_SCALE[1] - _SCALE[0]) * area)
    ratio = np.exp(np.log(_RATIO[0]) + np.log(_RATIO[1] / _RATIO[0]) * ratio)
    box_height, box_width = np.rint(np.sqrt(area / ratio)), np.rint(np.sqrt(area * ratio))
    fits = (box_height > 0) & (box_height <= height) & (box_width > 0) & (box_width <= width)
    top, left = np.floor(down * (height - box_height + 1)), np.floor(right * (width - box_width + 1))
    first = np.argmax(fits, axis=1)
    tries = np.stack([top, left, box_height, box_width], axis=2)
    boxes = tries[np.arange(len(sizes)), first]
    boxes = np.where(fits.any(axis=1)[:, None], boxes, _central_boxes(sizes))
    return boxes, uniforms[:, -1] < 0.5


def _central_boxes(sizes: NDArray[np.int64]) -> Boxes:
    """The largest box of an allowed ratio, for the rare image that no try fits."""
    height, width = sizes[:, 0], sizes[:, 1]
    box_width = np.minimum(width, np.rint(height * _RATIO[1]))
    box_height = np.minimum(height, np.rint(width / _RATIO[0]))
    corner = np.floor((height - box_height) / 2), np.floor((width - box_width) / 2)
    return np.column_stack([*corner, box_height, box_width]).astype(np.float64)


def _uniforms(seed: int, epoch: int, indices: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) by hashing (seed, epoch, index, k): seeding numpy's generators costs 50 µs per sample."""
    key = _mix(np.asarray(indices, dtype=np.uint64) ^ _mix(np.array([(seed & 0xFFFF_FFFF) << 32 | epoch], np.uint64)))
    hashed = _mix(key[:, None] + _mix(np.arange(1, count + 1, dtype=np.uint64)))
    return (hashed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit of the input changes about half of the output's."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def eval_view(sizes: NDArray[np.int64], *, image_size: int) -> tuple[Boxes, NDArray[np.bool_]]:
    """Short side to 256/224 of the input, then the centre, both in whole pixels; in pixels of the original image."""
    short = round(image_size * EVAL_SHORT_SIDE_RATIO)
    resized = np.floor(short * sizes / sizes.min(axis=1, keepdims=True))
    corner = np.rint((resized - image_size) / 2)
    scale = sizes / resized
    return np.hstack([corner * scale, image_size * scale]), np.zeros(len(sizes), dtype=bool)


CROPS = CropRules(train=train_view, eval=eval_view)
