"""An annotation file as arrays: compact, and shared by forked processes. Several can be joined to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageTable:
    ids: Ints
    names: NDArray[np.str_]
    """File names, relative to the split's folder."""
    heights: Ints
    widths: Ints

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class InstanceTable:
    """Objects and crowds, in the order of their images."""

    first: Ints
    """Instances of image i are first[i] to first[i + 1]."""
    ids: Ints
    """As in the file."""
    labels: Ints
    """From 1, in the order of the category ids."""
    boxes: Floats
    """Left, top, width, height, as in the file."""
    areas: Floats
    """As in the file; NaN if missing."""
    is_crowd: NDArray[np.bool_]
    ring_first: Ints
    """Polygons of instance a are ring_first[a] to ring_first[a + 1]; none if it has run lengths."""
    coord_first: Ints
    coords: Floats
    """x, y, x, y, ... of all polygons."""
    run_first: Ints
    runs: NDArray[np.uint8]
    """Run lengths as COCO's compressed text; empty if there are polygons."""

    def __len__(self) -> int:
        return len(self.ids)

    def of_image(self, index: int) -> range:
        return range(int(self.first[index]), int(self.first[index + 1]))

    def rings(self, instance: int) -> list[Floats]:
        numbers = range(int(self.ring_first[instance]), int(self.ring_first[instance + 1]))
        return [self.coords[self.coord_first[number] : self.coord_first[number + 1]] for number in numbers]

    def run_text(self, instance: int) -> bytes:
        return self.runs[self.run_first[instance] : self.run_first[instance + 1]].tobytes()


@dataclass(frozen=True, kw_only=True, eq=False)
class CocoSplit:
    name: str
    """Of the annotation file: train2017."""
    folder: str
    """Of the images; empty where the names of the images contain it."""
    images: ImageTable
    instances: InstanceTable
    categories: Mapping[int, str]
    """Id to name, sorted by id; the n-th has label n."""
    problems: Mapping[int, tuple[str, ...]]
    """By image: annotations that could not be used as they are."""

    def path(self, index: int) -> str:
        """Relative to the data set's folder."""
        name = str(self.images.names[index])
        return f"{self.folder}/{name}" if self.folder else name


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One valid annotation; the arrays are built from these."""

    image: int
    id: int
    label: int
    box: tuple[float, float, float, float]
    area: float
    is_crowd: bool
    rings: list[Any]
    runs: bytes


def as_table(instances: list[Instance], num_images: int) -> InstanceTable:
    instances = sorted(instances, key=lambda instance: instance.image)  # stable: keeps the file's order within an image
    rings = [ring for instance in instances for ring in instance.rings]
    return InstanceTable(
        first=np.searchsorted([instance.image for instance in instances], np.arange(num_images + 1)).astype(np.int64),
        ids=np.array([instance.id for instance in instances], dtype=np.int64),
        labels=np.array([instance.label for instance in instances], dtype=np.int64),
        boxes=np.array([instance.box for instance in instances], dtype=np.float64).reshape(-1, 4),
        areas=np.array([instance.area for instance in instances], dtype=np.float64),
        is_crowd=np.array([instance.is_crowd for instance in instances], dtype=bool),
        ring_first=_starts([len(instance.rings) for instance in instances]),
        coord_first=_starts([len(ring) for ring in rings]),
        coords=np.concatenate([np.asarray(ring, dtype=np.float64) for ring in rings] or [np.zeros(0)]),
        run_first=_starts([len(instance.runs) for instance in instances]),
        runs=np.frombuffer(b"".join(instance.runs for instance in instances), dtype=np.uint8),
    )


def join(splits: Sequence[CocoSplit]) -> CocoSplit:
    """The images and objects of several annotation files with the same categories as one split."""
    if len(splits) == 1:
        return splits[0]
    names = [split.path(index) for split in splits for index in range(len(split.images))]
    numbers = np.cumsum([0, *(len(split.images) for split in splits)]).tolist()
    return CocoSplit(
        name="+".join(split.name for split in splits),
        folder="",
        images=ImageTable(
            ids=np.concatenate([split.images.ids for split in splits]),
            names=np.array(names),
            heights=np.concatenate([split.images.heights for split in splits]),
            widths=np.concatenate([split.images.widths for split in splits]),
        ),
        instances=_join_instances([split.instances for split in splits]),
        categories=splits[0].categories,
        problems={
            before + image: problems
            for before, split in zip(numbers, splits, strict=False)
            for image, problems in split.problems.items()
        },
    )


def _join_instances(tables: Sequence[InstanceTable]) -> InstanceTable:
    """Columns that count places in another one go on where the table before ended."""
    joined: dict[str, NDArray[Any]] = {}
    for column in (field.name for field in fields(InstanceTable)):
        parts = [getattr(table, column) for table in tables]
        if column in _STARTS:
            lengths = np.concatenate([np.diff(part) for part in parts])
            joined[column] = _starts(lengths.tolist())
        else:
            joined[column] = np.concatenate(parts)
    return InstanceTable(**joined)


_STARTS = frozenset({"first", "ring_first", "coord_first", "run_first"})


def _starts(lengths: list[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
