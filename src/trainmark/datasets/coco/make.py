"""Makes a data set in COCO's layout from a seed: JPEG files, and annotation files with exact masks.

For a given number of classes, every image depends only on seed, split and index: the bytes are the same for any number
of workers, and a larger set contains the images of a smaller one.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.datasets.coco.layout import ANNOTATION_FOLDER, SPLITS, annotation_file
from trainmark.datasets.coco.scene import SceneObject, draw_scene
from trainmark.datasets.coco.trace import Mask, trace
from trainmark.datasets.jpeg import encode_jpeg, require_drawing
from trainmark.datasets.patterns import MAX_CLASSES, class_name
from trainmark.datasets.report import MakeReport
from trainmark.datasets.staging import staged_folder
from trainmark.datasets.workers import Chunk, chunks_of, draw_all, refuse_bad_drawing, split_sizes
from trainmark.errors import DataError
from trainmark.units import format_count

_QUALITY = 90
_IMAGES_PER_CHUNK = 16
_SIDES = (48, 4096)


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    num_classes: int
    seed: int
    mean_size: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """The part of a chunk in the annotation file."""

    split: int
    images: list[dict[str, Any]]
    annotations: list[dict[str, Any]]
    num_bytes: int


def make_coco(
    root: Path,
    *,
    num_images: int,
    num_classes: int = 5,
    val_fraction: float = 0.2,
    seed: int = 0,
    num_workers: int | None = None,
    mean_size: tuple[int, int] = (480, 640),
) -> MakeReport:
    """`num_images` counts both splits. `mean_size` is (height, width); swapped for a quarter of the images."""
    started = time.perf_counter()
    require_drawing()
    recipe = _Recipe(num_classes=num_classes, seed=seed, mean_size=mean_size)
    sizes = split_sizes(num_images, val_fraction)
    _refuse_impossible(recipe)
    with staged_folder(root) as folder:
        parts = [(number, split) for number, split in enumerate(SPLITS) if sizes[number]]
        for _, split in parts:
            (folder / split).mkdir()
        (folder / ANNOTATION_FOLDER).mkdir()
        drawn = draw_all(
            partial(_write_chunk, folder, recipe), chunks_of(sizes, _IMAGES_PER_CHUNK), num_workers=num_workers
        )
        num_bytes = sum(chunk.num_bytes for chunk in drawn)
        for number, split in parts:
            num_bytes += _write_annotations(folder / annotation_file(split), recipe, number, drawn)
    return MakeReport(
        root=root,
        unit="images",
        classes=tuple(class_name(label) for label in range(num_classes)),
        num_train=sizes[0],
        num_val=sizes[1],
        num_bytes=num_bytes,
        elapsed_s=time.perf_counter() - started,
    )


def category_id(label: int) -> int:
    """Ids with gaps, as in COCO, so that code that confuses ids with labels fails."""
    return 1 + label * 3 // 2


def _write_chunk(folder: Path, recipe: _Recipe, chunk: Chunk) -> _Drawn:
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    num_bytes = 0
    for index in chunk.indices:
        pixels, objects = draw_scene(
            seed=recipe.seed,
            split=chunk.split,
            index=index,
            num_classes=recipe.num_classes,
            mean_size=recipe.mean_size,
        )
        image_id = 2 * index + chunk.split + 1  # no id is in both splits
        name = f"{image_id:012d}.jpg"
        num_bytes += (folder / SPLITS[chunk.split] / name).write_bytes(encode_jpeg(pixels, quality=_QUALITY))
        images.append({"id": image_id, "file_name": name, "height": pixels.shape[0], "width": pixels.shape[1]})
        annotations.extend(_annotation(image_id, number, thing) for number, thing in enumerate(objects))
    return _Drawn(split=chunk.split, images=images, annotations=annotations, num_bytes=num_bytes)


def _annotation(image_id: int, number: int, thing: SceneObject) -> dict[str, Any]:
    rows, columns = (np.flatnonzero(thing.mask.any(axis=axis)).tolist() for axis in (1, 0))
    box = [columns[0], rows[0], columns[-1] + 1 - columns[0], rows[-1] + 1 - rows[0]]
    return {
        "id": image_id * 100 + number,
        "image_id": image_id,
        "category_id": category_id(thing.label),
        "iscrowd": int(thing.is_crowd),
        "area": int(thing.mask.sum()),
        "bbox": box,
        "segmentation": _runs(thing.mask) if thing.is_crowd else trace(thing.mask),
    }


def _runs(mask: Mask) -> dict[str, Any]:
    """Run lengths down the columns, background first, as COCO stores crowds."""
    flat = np.concatenate([[False], mask.T.ravel()])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    counts = np.diff(np.concatenate([[0], changes, [mask.size]]))
    return {"size": list(mask.shape), "counts": counts.tolist()}


def _write_annotations(path: Path, recipe: _Recipe, split: int, drawn: list[_Drawn]) -> int:
    content = {
        "info": {"description": f"generated by trainmark, seed {recipe.seed}", "version": "1.0"},
        "licenses": [],
        "images": [image for chunk in drawn if chunk.split == split for image in chunk.images],
        "annotations": [record for chunk in drawn if chunk.split == split for record in chunk.annotations],
        "categories": [
            {"id": category_id(label), "name": class_name(label), "supercategory": "shape"}
            for label in range(recipe.num_classes)
        ],
    }
    return path.write_bytes(json.dumps(content, separators=(",", ":")).encode())


def _refuse_impossible(recipe: _Recipe) -> None:
    if not 1 <= recipe.num_classes <= MAX_CLASSES:
        raise DataError(
            f"cannot make {format_count(recipe.num_classes, 'classes')}",
            why=f"there are {MAX_CLASSES} pairs of a shape and a texture",
            hint=f"give 1 to {MAX_CLASSES}",
        )
    refuse_bad_drawing(seed=recipe.seed, size=recipe.mean_size, sides=_SIDES)
