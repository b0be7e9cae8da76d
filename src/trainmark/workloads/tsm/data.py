"""Clips for TSM: which frames of a clip, which part of the picture, mirrored or not.

All frames of a clip are cropped and mirrored in the same way. Frames stay bytes; the device normalises them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainmark.datasets.jpeg import Pixels
from trainmark.datasets.kinetics.lists import Clip
from trainmark.datasets.kinetics.read import Frames, UnusableClipError, load_clip, read_clips
from trainmark.units import format_count
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import Sample, UnusableSampleError, shuffled

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

_SCALES = (1.0, 0.875, 0.75, 0.66)
_MAX_SCALE_STEPS = 1
"""Height and width may have adjacent scales, which stretches the picture a little."""
_SNAP = 3
"""A crop whose side is nearer than this to the input's is cut at the input's side, so that it need not be resized."""
_PLACES = tuple((y, x) for y in range(5) for x in range(5) if (y % 2, x % 2) in ((0, 0), (1, 1)))
"""In quarters of the room around the crop: corners, middles of edges, centre, and the four points between."""
_MIN_FRAMES = 3
"""The public code leaves out clips with fewer."""

Box = tuple[int, int, int, int]
"""Top, left, height, width."""
ChooseFrames = Callable[[int], NDArray[np.int64]]


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
        clip = self.train[index]
        frames = self._load(clip, lambda num_frames: train_frames(num_frames, places))
        height, width = frames.pixels[0].shape[:2]
        box = multi_scale_crop(height, width, rng, side=self.size.height)
        is_mirrored = rng.random() < 0.5
        return self._as_sample(clip, frames, lambda frame: cut(frame, box, self.size, is_mirrored=is_mirrored))

    def eval_sample(self, index: int) -> Sample:
        clip = self.val[index]
        frames = self._load(clip, lambda num_frames: eval_frames(num_frames, self.size.num_frames))
        return self._as_sample(clip, frames, lambda frame: eval_view(frame, self.size.height))

    @staticmethod
    def collate(samples: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        frames = np.stack([sample["frames"] for sample in samples])
        return {"frames": frames, "labels": np.array([sample["label"] for sample in samples], dtype=np.int64)}

    def _load(self, clip: Clip, choose: ChooseFrames) -> Frames:
        def choose_from_enough(num_frames: int) -> NDArray[np.int64]:
            if num_frames < _MIN_FRAMES:
                raise UnusableClipError(f"{format_count(num_frames, 'frames')}; clips under {_MIN_FRAMES} are left out")
            return choose(num_frames)

        try:
            return load_clip(self.root, clip, choose_from_enough)
        except UnusableClipError as error:
            raise UnusableSampleError(clip.path, str(error)) from error

    def _as_sample(self, clip: Clip, frames: Frames, view: Callable[[Pixels], Pixels]) -> Sample:
        pixels = np.stack([view(frame) for frame in frames.pixels])
        problems = () if frames.problem is None else ((clip.path, frames.problem),)
        return Sample(arrays={"frames": pixels, "label": np.array(clip.label)}, problems=problems)


def train_frames(num_frames: int, places: NDArray[np.float64]) -> NDArray[np.int64]:
    """One frame of each of `len(places)` segments; a place is a position within its segment, 0 to 1.

    Segments have the same whole number of frames, so the last frames of a clip may be in none. A clip with fewer
    frames than segments repeats its first frame.
    """
    length = num_frames // len(places)
    return np.arange(len(places)) * length + np.floor(places * length).astype(np.int64)


def eval_frames(num_frames: int, num_segments: int) -> NDArray[np.int64]:
    """The middle of each segment; a clip with no more frames than segments repeats its first frame."""
    if num_frames <= num_segments:
        return np.zeros(num_segments, dtype=np.int64)
    return np.floor((np.arange(num_segments) + 0.5) * num_frames / num_segments).astype(np.int64)


def multi_scale_crop(height: int, width: int, rng: np.random.Generator, *, side: int) -> Box:
    """A fraction of the short side in each direction, at one of 13 fixed places; `side` is the input's."""
    lengths = [max(1, int(min(height, width) * scale)) for scale in _SCALES]
    lengths = [side if abs(length - side) < _SNAP and side <= min(height, width) else length for length in lengths]
    rows, columns = rng.choice(_SCALE_PAIRS)
    down, right = _PLACES[rng.integers(len(_PLACES))]
    return (
        down * ((height - lengths[rows]) // 4),
        right * ((width - lengths[columns]) // 4),
        lengths[rows],
        lengths[columns],
    )


_SCALE_PAIRS = np.array(
    [
        (rows, columns)
        for rows in range(len(_SCALES))
        for columns in range(len(_SCALES))
        if abs(rows - columns) <= _MAX_SCALE_STEPS
    ]
)


def cut(frame: Pixels, box: Box, size: ImageSize, *, is_mirrored: bool) -> Pixels:
    top, left, height, width = box
    part = resize(frame[top : top + height, left : left + width], size.height, size.width)
    return part[:, ::-1] if is_mirrored else part


def eval_view(frame: Pixels, side: int) -> Pixels:
    """Short side to 256 for an input of 224, then the centre."""
    height, width = frame.shape[:2]
    short, wanted = min(height, width), side * 256 // 224
    resized = resize(frame, int(wanted * height / short), int(wanted * width / short))
    top, left = (round((length - side) / 2) for length in resized.shape[:2])
    return resized[top : top + side, left : left + side]


def resize(pixels: Pixels, height: int, width: int) -> Pixels:
    """By Pillow, as the public code does: bilinear, with antialiasing, or edges would flicker from frame to frame."""
    if pixels.shape[:2] == (height, width):
        return pixels
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
