"""Makes street scenes in Cityscapes' layout. Labels are exact: they are drawn from the same shapes.

Every image depends only on seed, split and index: the bytes are the same for any number of workers, and a larger set
contains the images of a smaller one. They are the same on machines with the same numpy, Pillow and processor type.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.datasets.cityscapes.labels import CLASSES
from trainmark.datasets.cityscapes.scan import IMAGE_ENDING, IMAGES, LABEL_ENDING, LABELS
from trainmark.datasets.cityscapes.scene import draw_street
from trainmark.datasets.png import encode_png
from trainmark.datasets.report import MakeReport
from trainmark.datasets.staging import staged_folder
from trainmark.datasets.workers import SPLITS, Chunk, chunks_of, draw_all, refuse_bad_drawing, split_sizes

# The index of a split is part of the seed of each of its images. The cities are fictional.
_CITIES = {
    "train": ("ahornstadt", "buchenfeld", "erlental", "fichtenau", "kieferngrund"),
    "val": ("lindenhof", "weidenbach"),
}
_IMAGES_PER_CHUNK = 8
_LEVEL = 3  # compression level: a third of the time of the default 6, and smaller for these images
_SIDES = (32, 8192)
DEFAULT_SIZE = (512, 1024)
"""Half of Cityscapes' in each direction."""


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    seed: int
    size: tuple[int, int]


def make_cityscapes(
    root: Path,
    *,
    num_images: int,
    val_fraction: float = 0.2,
    seed: int = 0,
    num_workers: int | None = None,
    size: tuple[int, int] = DEFAULT_SIZE,
) -> MakeReport:
    """`num_images` counts both splits. `size` is (height, width)."""
    started = time.perf_counter()
    recipe = _Recipe(seed=seed, size=size)
    refuse_bad_drawing(seed=seed, size=size, sides=_SIDES)
    counts = dict(zip(SPLITS, split_sizes(num_images, val_fraction), strict=True))
    with staged_folder(root) as folder:
        for split, count in counts.items():
            for city in _CITIES[split][:count]:
                for half in (IMAGES, LABELS):
                    (folder / half / split / city).mkdir(parents=True)
        num_bytes = sum(
            draw_all(
                partial(_write_chunk, folder, recipe),
                chunks_of(tuple(counts.values()), _IMAGES_PER_CHUNK),
                num_workers=num_workers,
            )
        )
    return MakeReport(
        root=root,
        unit="images",
        classes=CLASSES,
        num_train=counts["train"],
        num_val=counts["val"],
        num_bytes=num_bytes,
        elapsed_s=time.perf_counter() - started,
    )


def _write_chunk(folder: Path, recipe: _Recipe, chunk: Chunk) -> int:
    num_bytes, split = 0, tuple(_CITIES)[chunk.split]
    cities = _CITIES[split]
    for index in chunk.indices:
        picture, ids = draw_street(seed=recipe.seed, split=chunk.split, index=index, size=recipe.size)
        city = cities[index % len(cities)]
        stem = f"{split}/{city}/{city}_{index // len(cities):06d}_000019"
        for path, pixels in ((f"{IMAGES}/{stem}{IMAGE_ENDING}", picture), (f"{LABELS}/{stem}{LABEL_ENDING}", ids)):
            num_bytes += (folder / path).write_bytes(encode_png(pixels, level=_LEVEL))
    return num_bytes
