"""Makes images with rendered words in ICDAR 2015's layout from a seed, with exact quadrilaterals.

Every image depends only on seed, split and index: the bytes are the same for any number of workers, and a larger folder
contains the images of a smaller one. They are the same on machines with the same numpy, Pillow and OpenCV.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.datasets.icdar2015.scan import LAYOUTS
from trainmark.datasets.jpeg import encode_jpeg, require_drawing
from trainmark.datasets.report import MakeReport
from trainmark.datasets.staging import staged_folder
from trainmark.datasets.workers import Chunk, chunks_of, draw_all, refuse_bad_drawing, split_sizes
from trainmark.errors import DataError

_BOM = b"\xef\xbb\xbf"
_QUALITY = 85
_IMAGES_PER_CHUNK = 8
_SIDES = (96, 4096)


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the images of a generated set have in common."""

    height: int = 720
    width: int = 1280
    max_words: int = 10
    """An image has at least half as many, if there is room: few crops should be without text."""
    max_letters: int = 8
    word_height: tuple[float, float] = (0.06, 0.18)
    """Relative to the shorter side: 43 to 130 pixels of 720."""
    ignored_part: float = 0.15
    """Fraction of words that are too small or too blurred to read: `###`."""


def make_icdar2015(
    root: Path,
    *,
    num_images: int,
    val_fraction: float = 0.2,
    seed: int = 0,
    num_workers: int | None = None,
    page: Page | None = None,
) -> MakeReport:
    """`num_images` counts both splits. By default, images have the size of the public set."""
    started = time.perf_counter()
    require_drawing()
    sizes = split_sizes(num_images, val_fraction)
    page = page or Page()
    _refuse_impossible(page, seed=seed)
    with staged_folder(root) as folder:
        for (image_folder, label_folder), num in zip(LAYOUTS[0], sizes, strict=True):
            for name in (image_folder, label_folder) if num else ():
                (folder / name).mkdir()
        draw = partial(_write_chunk, folder, seed, page)
        num_bytes = sum(draw_all(draw, chunks_of(sizes, _IMAGES_PER_CHUNK), num_workers=num_workers))
    return MakeReport(
        root=root,
        unit="images",
        classes=("text",),
        num_train=sizes[0],
        num_val=sizes[1],
        num_bytes=num_bytes,
        elapsed_s=time.perf_counter() - started,
    )


def _write_chunk(folder: Path, seed: int, page: Page, chunk: Chunk) -> int:
    from trainmark.datasets.icdar2015.scene import draw_scene

    image_folder, label_folder = LAYOUTS[0][chunk.split]
    num_bytes = 0
    for index in chunk.indices:
        pixels, words = draw_scene(seed=seed, split=chunk.split, index=index, page=page)
        lines = (",".join([*map(str, quad.ravel().tolist()), text]) + "\r\n" for quad, text in words)
        label = _BOM + "".join(lines).encode()
        name = f"img_{index + 1}"
        num_bytes += (folder / image_folder / f"{name}.jpg").write_bytes(encode_jpeg(pixels, quality=_QUALITY))
        num_bytes += (folder / label_folder / f"gt_{name}.txt").write_bytes(label)
    return num_bytes


def _refuse_impossible(page: Page, *, seed: int) -> None:
    low, high = page.word_height
    refuse_bad_drawing(seed=seed, size=(page.height, page.width), sides=_SIDES)
    if page.max_words < 1 or page.max_letters < 2:
        what = f"cannot make {page.max_words} words of {page.max_letters} letters"
        raise DataError(what, hint="give 1 word or more, of 2 letters or more")
    if not 0 < low <= high < 1:
        raise DataError(
            f"cannot make words of {low} to {high} of the image's height", hint="give fractions between 0 and 1"
        )
