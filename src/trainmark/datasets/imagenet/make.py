"""A labelled image folder of any size from a seed: the real layout, real file sizes, and something to learn.

The classes are pairs of a shape and a texture. Given how many classes there are, every image depends on its seed, split
and index alone: the bytes are the same for any number of workers, and a larger folder holds the smaller one's images.
Between machines they are the same where numpy, Pillow and the kind of processor are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.datasets.imagenet.scene import draw_scene
from trainmark.datasets.jpeg import encode_jpeg, require_encoder
from trainmark.datasets.patterns import MAX_CLASSES, class_name
from trainmark.datasets.report import MakeReport
from trainmark.datasets.staging import staged_folder
from trainmark.datasets.workers import SPLITS, Chunk, chunks_of, draw_all, split_sizes
from trainmark.errors import DataError
from trainmark.units import format_count

_QUALITY = 90  # with the grain of `scene`, 100 KB at 500 x 375, as ImageNet has it
_IMAGES_PER_CHUNK = 32
_MIN_SIDE, _MAX_SIDE = 32, 8192


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    num_classes: int
    seed: int
    mean_size: tuple[int, int]


def make_imagenet(
    root: Path,
    *,
    num_images: int,
    num_classes: int = 10,
    val_fraction: float = 0.2,
    seed: int = 0,
    num_workers: int | None = None,
    mean_size: tuple[int, int] = (375, 500),
) -> MakeReport:
    """`num_images` counts both splits. `mean_size` is (height, width); a quarter of the images are turned."""
    started = time.perf_counter()
    require_encoder()
    recipe = _Recipe(num_classes=num_classes, seed=seed, mean_size=mean_size)
    _refuse_impossible(recipe)
    sizes = split_sizes(num_images, val_fraction, num_classes=num_classes)
    classes = tuple(class_name(label) for label in range(num_classes))
    with staged_folder(root) as folder:
        for split, size in zip(SPLITS, sizes, strict=True):
            for class_ in classes if size else ():
                (folder / split / class_).mkdir(parents=True)
        num_bytes = sum(
            draw_all(
                partial(_write_chunk, folder, recipe), chunks_of(sizes, _IMAGES_PER_CHUNK), num_workers=num_workers
            )
        )
    return MakeReport(
        root=root,
        unit="images",
        classes=classes,
        num_train=sizes[0],
        num_val=sizes[1],
        num_bytes=num_bytes,
        elapsed_s=time.perf_counter() - started,
    )


def _write_chunk(folder: Path, recipe: _Recipe, chunk: Chunk) -> int:
    num_bytes = 0
    for index in chunk.indices:
        label = index % recipe.num_classes
        pixels = draw_scene(label=label, seed=recipe.seed, split=chunk.split, index=index, mean_size=recipe.mean_size)
        class_ = class_name(label)
        path = folder / SPLITS[chunk.split] / class_ / f"{class_}_{index:07d}.JPEG"
        num_bytes += path.write_bytes(encode_jpeg(pixels, quality=_QUALITY))
    return num_bytes


def _refuse_impossible(recipe: _Recipe) -> None:
    height, width = recipe.mean_size
    if not 2 <= recipe.num_classes <= MAX_CLASSES:
        raise DataError(
            f"{format_count(recipe.num_classes, 'classes')} cannot be made",
            why=f"there are {MAX_CLASSES} pairs of a shape and a texture",
            hint=f"give 2 to {MAX_CLASSES}",
        )
    if recipe.seed < 0:
        raise DataError(f"seed {recipe.seed} is negative", hint="give 0 or more")
    if not (_MIN_SIDE <= height <= _MAX_SIDE and _MIN_SIDE <= width <= _MAX_SIDE):
        raise DataError(f"images of {width} x {height} are not made", hint=f"give sides of {_MIN_SIDE} to {_MAX_SIDE}")
