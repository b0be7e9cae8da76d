"""Makes a labelled image folder of any size from a seed, with the layout and file sizes of ImageNet.

A class is a pair of a shape and a texture. For a given number of classes, every image depends only on seed, split and
index: the bytes are the same for any number of workers, and a larger folder contains the images of a smaller one. They
are the same on machines with the same numpy, Pillow and processor type.
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
from trainmark.datasets.workers import SPLITS, Chunk, chunks_of, draw_all, refuse_bad_drawing, split_sizes
from trainmark.errors import DataError
from trainmark.units import format_count

_QUALITY = 90  # with the noise of `scene`: 100 KB at 500 x 375, as in ImageNet
_IMAGES_PER_CHUNK = 32
_SIDES = (32, 8192)


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
    """`num_images` counts both splits. `mean_size` is (height, width); swapped for a quarter of the images."""
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
    if not 2 <= recipe.num_classes <= MAX_CLASSES:
        raise DataError(
            f"cannot make {format_count(recipe.num_classes, 'classes')}",
            why=f"there are {MAX_CLASSES} pairs of a shape and a texture",
            hint=f"give 2 to {MAX_CLASSES}",
        )
    refuse_bad_drawing(seed=recipe.seed, size=recipe.mean_size, sides=_SIDES)
