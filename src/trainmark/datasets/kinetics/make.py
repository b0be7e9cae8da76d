"""Makes clips whose class is the order of four events, from a seed, in either of Kinetics' layouts.

    frames    DIR/train/<class>/<clip>/img_00001.jpg ..., DIR/train.txt, DIR/val.txt, DIR/classes.txt
    videos    DIR/train/<class>/<clip>.mp4, DIR/val/<class>/<clip>.mp4

For a given number of classes, a clip depends only on seed, split and index: the bytes are the same for any number of
workers, and a larger folder contains the clips of a smaller one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.datasets.jpeg import Pixels, encode_jpeg, require_encoder
from trainmark.datasets.kinetics.read import frame_name
from trainmark.datasets.kinetics.scene import EVENTS, MAX_CLASSES, class_name, draw_clip, order_of
from trainmark.datasets.kinetics.video import encode_video, require_video_encoder
from trainmark.datasets.report import MakeReport
from trainmark.datasets.staging import staged_folder
from trainmark.datasets.workers import SPLITS, Chunk, chunks_of, draw_all, refuse_bad_drawing, split_sizes
from trainmark.errors import DataError
from trainmark.units import format_count

_QUALITY = 85
_CLIPS_PER_CHUNK = 8
_SIDES = (32, 4096)
_MAX_FRAMES = 9600


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    num_classes: int
    seed: int
    num_frames: int
    size: tuple[int, int]
    as_videos: bool


def make_kinetics(
    root: Path,
    *,
    num_clips: int,
    num_classes: int = 6,
    val_fraction: float = 0.2,
    seed: int = 0,
    num_workers: int | None = None,
    num_frames: int = 16,
    size: tuple[int, int] = (256, 340),
    as_videos: bool = False,
) -> MakeReport:
    """`num_clips` counts both splits; `size` is (height, width), by default the usual size of extracted frames."""
    started = time.perf_counter()
    (require_video_encoder if as_videos else require_encoder)()
    recipe = _Recipe(num_classes=num_classes, seed=seed, num_frames=num_frames, size=size, as_videos=as_videos)
    _refuse_impossible(recipe)
    sizes = split_sizes(num_clips, val_fraction, num_classes=num_classes, what="clips")
    classes = tuple(class_name(label) for label in range(num_classes))
    with staged_folder(root) as folder:
        for split, number in zip(SPLITS, sizes, strict=True):
            for class_ in classes if number else ():
                (folder / split / class_).mkdir(parents=True)
        num_bytes = sum(
            draw_all(partial(_write_chunk, folder, recipe), chunks_of(sizes, _CLIPS_PER_CHUNK), num_workers=num_workers)
        )
        if not as_videos:
            _write_lists(folder, recipe, sizes)
    return MakeReport(
        root=root,
        unit="clips",
        classes=classes,
        num_train=sizes[0],
        num_val=sizes[1],
        num_bytes=num_bytes,
        elapsed_s=time.perf_counter() - started,
    )


def _clip_path(split: int, label: int, index: int) -> str:
    return f"{SPLITS[split]}/{class_name(label)}/clip_{index:06d}"


def _write_chunk(folder: Path, recipe: _Recipe, chunk: Chunk) -> int:
    num_bytes = 0
    for index in chunk.indices:
        label = index % recipe.num_classes
        frames = draw_clip(
            order=order_of(label),
            seed=recipe.seed,
            split=chunk.split,
            index=index,
            num_frames=recipe.num_frames,
            size=recipe.size,
        )
        write = _write_video if recipe.as_videos else _write_frames
        num_bytes += write(folder / _clip_path(chunk.split, label, index), frames)
    return num_bytes


def _write_frames(place: Path, frames: Sequence[Pixels]) -> int:
    place.mkdir()
    return sum(
        (place / frame_name(number)).write_bytes(encode_jpeg(pixels, quality=_QUALITY))
        for number, pixels in enumerate(frames)
    )


def _write_video(place: Path, frames: Sequence[Pixels]) -> int:
    return place.with_suffix(".mp4").write_bytes(encode_video(frames))


def _write_lists(folder: Path, recipe: _Recipe, sizes: Sequence[int]) -> None:
    labels = range(recipe.num_classes)
    (folder / "classes.txt").write_text("".join(f"{class_name(label)}\n" for label in labels))
    for split, number in enumerate(sizes):
        lines = (
            f"{_clip_path(split, index % recipe.num_classes, index)} {recipe.num_frames} {index % recipe.num_classes}\n"
            for index in range(number)
        )
        if number:
            (folder / f"{SPLITS[split]}.txt").write_text("".join(lines))


def _refuse_impossible(recipe: _Recipe) -> None:
    height, width = recipe.size
    if not 2 <= recipe.num_classes <= MAX_CLASSES:
        raise DataError(
            f"cannot make {format_count(recipe.num_classes, 'classes')}",
            why=f"{len(EVENTS)} events have {MAX_CLASSES} orders",
            hint=f"give 2 to {MAX_CLASSES}",
        )
    refuse_bad_drawing(seed=recipe.seed, size=recipe.size, sides=_SIDES)
    if not 8 <= recipe.num_frames <= _MAX_FRAMES or recipe.num_frames % 8:
        raise DataError(
            f"cannot make clips of {format_count(recipe.num_frames, 'frames')}",
            why="each of eight segments must be within one event",
            hint=f"give a multiple of 8 up to {_MAX_FRAMES}",
        )
    if height % 2 or width % 2:
        raise DataError(f"cannot draw frames of {width} x {height} pixels", hint="give even sides")
