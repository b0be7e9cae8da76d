"""Clips for TSM: which frames of a clip, which part of the picture, mirrored or not.

All frames of a clip are cropped and mirrored in the same way. Frames stay bytes; the device normalises them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.kinetics.lists import Clip
from trainmark.datasets.kinetics.read import UnusableClipError, load_clip, read_clips
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Sample, UnusableSampleError, shuffled

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

_SCALES = (1.0, 0.875, 0.75, 0.66)
_MAX_SCALE_STEPS = 1
"""Height and width may have adjacent scales, which stretches the picture a little."""
_PLACES = tuple((y / 4, x / 4) for y in range(5) for x in range(5) if (y % 2, x % 2) in ((0, 0), (1, 1)))
"""Of the room above and left of the crop: corners, middles of edges, centre, and the four points between."""
_EVAL_SHARE = 224 / 256
"""Short side to 256, then the central 224: in pixels of the frame a square of 7/8 of its short side."""

Box = tuple[int, int, int, int]
"""Top, left, height, width."""


def open_data(root: Path, *, size: ImageSize) -> Clips:
    scan = read_clips(root)
    return Clips(root=scan.root, train=scan.train, val=scan.val or (), num_classes=len(scan.classes), size=size)


@dataclass(frozen=True, kw_only=True)
class Clips:
    root: Path
    train: tuple[Clip, ...]
    val: tuple[Clip, ...]
    num_classes: int
    size: ImageSize
    truth: None = None

    @property
    def num_train(self) -> int:
        return len(self.train)

    @property
    def num_val(self) -> int:
        return len(self.val)

    def order(self, *, seed: int, epoch: int, global_batch: int) -> NDArray[np.int64]:
        return shuffled(self.num_train, seed=seed, epoch=epoch, global_batch=global_batch)

    def train_sample(self, index: int, rng: np.random.Generator) -> Sample:
        places = rng.random(self.size.num_frames)
        return self._load(self.train[index], places, rng)

    def eval_sample(self, index: int) -> Sample:
        return self._load(self.val[index], np.full(self.size.num_frames, 0.5), None)

    @staticmethod
    def collate(samples: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        frames = np.stack([sample["frames"] for sample in samples])
        return {"frames": frames, "labels": np.array([sample["label"] for sample in samples], dtype=np.int64)}

    def _load(self, clip: Clip, places: NDArray[np.float64], rng: np.random.Generator | None) -> Sample:
        try:
            frames = load_clip(self.root, clip, lambda num_frames: choose_frames(num_frames, places))
        except UnusableClipError as error:
            raise UnusableSampleError(clip.path, str(error)) from error
        height, width = frames.pixels[0].shape[:2]
        box = centre_crop(height, width) if rng is None else multi_scale_crop(height, width, rng)
        is_mirrored = rng is not None and rng.random() < 0.5
        pixels = np.empty((len(places), self.size.height, self.size.width, 3), dtype=np.uint8)
        for number, frame in enumerate(frames.pixels):
            _cut(frame, box, is_mirrored, out=pixels[number])
        problems = () if frames.problem is None else ((clip.path, frames.problem),)
        return Sample(arrays={"frames": pixels, "label": np.array(clip.label)}, problems=problems)


def choose_frames(num_frames: int, places: NDArray[np.float64]) -> NDArray[np.int64]:
    """One frame of each of `len(places)` equal segments; a place is a position within its segment, 0 to 1."""
    numbers = np.floor((np.arange(len(places)) + places) * num_frames / len(places)).astype(np.int64)
    return np.minimum(numbers, num_frames - 1)


def multi_scale_crop(height: int, width: int, rng: np.random.Generator) -> Box:
    """A fraction of the short side in each direction, at one of 13 fixed places."""
    rows, columns = rng.choice(_SCALE_PAIRS)
    short = min(height, width)
    crop_height, crop_width = max(1, int(short * _SCALES[rows])), max(1, int(short * _SCALES[columns]))
    down, right = _PLACES[rng.integers(len(_PLACES))]
    return int(down * (height - crop_height)), int(right * (width - crop_width)), crop_height, crop_width


_SCALE_PAIRS = np.array(
    [
        (rows, columns)
        for rows in range(len(_SCALES))
        for columns in range(len(_SCALES))
        if abs(rows - columns) <= _MAX_SCALE_STEPS
    ]
)


def centre_crop(height: int, width: int) -> Box:
    side = max(1, round(min(height, width) * _EVAL_SHARE))
    return (height - side) // 2, (width - side) // 2, side, side


def _cut(frame: NDArray[np.uint8], box: Box, is_mirrored: bool, *, out: NDArray[np.uint8]) -> None:
    top, left, height, width = box
    part = frame[top : top + height, left : left + width]
    # Skipping pixels of a much larger picture would make edges flicker from frame to frame.
    smooth = height > 1.5 * out.shape[0]
    resized = cv2.resize(part, out.shape[1::-1], interpolation=cv2.INTER_AREA if smooth else cv2.INTER_LINEAR)
    out[:] = resized[:, ::-1] if is_mirrored else resized
