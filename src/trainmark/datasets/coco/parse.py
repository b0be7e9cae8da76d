"""Parses one annotation file: JSON in, arrays and faults out. Every record is validated."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from trainmark.datasets.coco.layout import Part, annotation_file
from trainmark.datasets.coco.masks import read_runs
from trainmark.datasets.coco.tables import CocoSplit, ImageTable, Instance, as_table
from trainmark.datasets.jpeg import MAX_PIXELS
from trainmark.datasets.report import DataFault, FaultKind
from trainmark.runfolder.files import read_bounded
from trainmark.units import plain

_MIN_SIDE = 0.1  # of a box, in pixels: a smaller one teaches nothing, and its logarithm disturbs the loss
_MARGIN = 1.0  # pixels: COCO's own polygons extend this far outside
_INT64 = 2**63

_MAX_BYTES = 4 << 30
"""The largest of COCO 2017 has 470 MB. A pipe or a device is not read at all."""


@dataclass(kw_only=True)
class Parse:
    """The content of one file and its faults."""

    split: str
    faults: list[DataFault] = field(default_factory=list)
    problems: dict[int, list[str]] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return annotation_file(self.split)

    def refuse(self, kind: FaultKind, problem: str) -> None:
        """A fault of the whole file."""
        self.faults.append(DataFault(path=self.path, kind=kind, problem=problem))

    def refuse_entry(self, kind: FaultKind, problem: str) -> None:
        """A fault of a category or image record: without it, labels or files would not be what the file says."""
        self.faults.append(DataFault(path=self.path, kind=kind, problem=problem, is_entry=True))

    def note(self, image: int | None, name: str, kind: FaultKind, problem: str) -> None:
        """A fault of one annotation; training skips it, or uses the valid part."""
        where = f" (image {plain(name)})" if name else ""
        self.faults.append(
            DataFault(path=self.path, kind=kind, problem=f"{problem}{where}", usable=True, is_entry=True)
        )
        self.problems.setdefault(0 if image is None else image, []).append(problem)


def parse_split(root: Path, part: Part) -> tuple[CocoSplit | None, list[DataFault]]:
    """None if the file cannot be used at all."""
    parse = Parse(split=part.name)
    content = _load(root, parse)
    if content is None:
        return None, parse.faults
    categories = _categories(content["categories"], parse)
    images = _images(content["images"], parse)
    if not categories or not len(images):
        what = "categories" if not categories else "images"
        parse.refuse(FaultKind.EMPTY_ANNOTATIONS, f"lists no valid {what}")
        return None, parse.faults
    instances = _instances(content["annotations"], images, categories, parse)
    del content
    found = CocoSplit(
        name=part.name,
        folder=part.folder,
        images=images,
        instances=as_table(instances, len(images)),
        categories=categories,
        problems={image: tuple(problems) for image, problems in parse.problems.items()},
    )
    return found, parse.faults


def _load(root: Path, parse: Parse) -> dict[str, Any] | None:
    try:
        data = read_bounded(root / parse.path, _MAX_BYTES)
        content = json.loads(data, object_hook=_compact)
    except FileNotFoundError:
        parse.refuse(FaultKind.MISSING_ANNOTATIONS, "missing")
        return None
    except OSError as error:
        parse.refuse(FaultKind.UNREADABLE, error.strerror or str(error))
        return None
    except (ValueError, RecursionError) as error:
        problem = "is empty" if not data else f"is not valid JSON: {plain(error)[:200]}"
        parse.refuse(FaultKind.BAD_ANNOTATIONS, problem)
        return None
    keys = ("images", "annotations", "categories")
    missing = [key for key in keys if not isinstance(content, dict) or not isinstance(content.get(key), list)]
    if missing:
        parse.refuse(FaultKind.BAD_ANNOTATIONS, f"has no list of {', '.join(missing)}")
        return None
    return {key: content[key] for key in keys}


def _compact(record: dict[str, Any]) -> dict[str, Any]:
    """Called for every JSON object: converts polygons to arrays, which need a tenth of the memory of lists."""
    polygons = record.get("segmentation")
    if isinstance(polygons, list):
        record["segmentation"] = [_as_array(polygon) for polygon in polygons]
    return record


def _as_array(polygon: Any) -> array[float] | None:
    try:
        return array("d", polygon) if isinstance(polygon, list) else None
    except (TypeError, OverflowError):
        return None


def _categories(records: list[Any], parse: Parse) -> dict[int, str]:
    found: dict[int, str] = {}
    for number, record in enumerate(records):
        id_ = _id_of(record, "id")
        if id_ is None:
            parse.refuse_entry(FaultKind.BAD_RECORD, f"category number {number + 1} has no integer id")
        elif id_ in found:
            parse.refuse_entry(FaultKind.DUPLICATE_ID, f"category {id_} is listed twice")
        else:
            found[id_] = plain(record.get("name", id_))
    return dict(sorted(found.items()))


def _images(records: list[Any], parse: Parse) -> ImageTable:
    rows: list[tuple[int, str, int, int]] = []
    seen: set[int] = set()
    for number, record in enumerate(records):
        id_ = _id_of(record, "id")
        problem = f"image number {number + 1} has no integer id" if id_ is None else _wrong_with_image(record)
        if id_ is None or problem is not None:
            parse.refuse_entry(FaultKind.BAD_RECORD, problem or "")
        elif id_ in seen:
            parse.refuse_entry(FaultKind.DUPLICATE_ID, f"image {id_} is listed twice")
        elif not is_inside(record["file_name"]):
            problem = f"image {id_} has the file name {plain(record['file_name'])!r}, which points outside the folder"
            parse.refuse_entry(FaultKind.OUTSIDE, problem)
        else:
            seen.add(id_)
            rows.append((id_, record["file_name"], record["height"], record["width"]))
    ids, names, heights, widths = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ImageTable(
        ids=np.array(ids, dtype=np.int64),
        names=np.array(names, dtype=np.str_),
        heights=np.array(heights, dtype=np.int64),
        widths=np.array(widths, dtype=np.int64),
    )


def is_inside(name: str) -> bool:
    """Whether it is a relative path without `..`; links are checked when the folder is listed."""
    parts = PurePosixPath(name).parts
    is_plain = bool(parts) and "\0" not in name and "\\" not in name
    return is_plain and not name.startswith("/") and ".." not in parts


def _wrong_with_image(record: Mapping[str, Any]) -> str | None:
    name, height, width = (record.get(key) for key in ("file_name", "height", "width"))
    if not isinstance(name, str) or not name:
        return f"image {record['id']} has no file name"
    if type(height) is not int or type(width) is not int or height < 1 or width < 1:
        return f"image {record['id']} has no height and width that are integers > 0"
    if height * width > MAX_PIXELS:
        return f"image {record['id']} claims {width} x {height} pixels; the limit is {MAX_PIXELS:,}"
    return None


def _instances(records: list[Any], images: ImageTable, categories: Mapping[int, str], parse: Parse) -> list[Instance]:
    image_of = {id_: number for number, id_ in enumerate(images.ids.tolist())}
    label_of = {id_: number for number, id_ in enumerate(categories, start=1)}
    heights, widths, names = images.heights.tolist(), images.widths.tolist(), images.names.tolist()
    found: list[Instance] = []
    seen: set[int] = set()
    for number, record in enumerate(records):
        id_ = _id_of(record, "id")
        what = f"annotation {id_}" if id_ is not None else f"annotation number {number + 1}"
        image = _look_up(image_of, record, "image_id")
        if image is None:
            parse.note(None, "", FaultKind.UNKNOWN_IMAGE, f"{what} refers to an unknown image; skipped")
            continue
        label = _look_up(label_of, record, "category_id")
        name = names[image]
        if label is None:
            parse.note(
                image,
                name,
                FaultKind.UNKNOWN_CATEGORY,
                f"{what} refers to an unknown category; skipped",
            )
            continue
        if id_ in seen:
            parse.note(image, name, FaultKind.DUPLICATE_ID, f"{what} is listed twice; both are used")
        seen.add(id_ or 0)
        reading = _Reading(record=record, what=what, height=heights[image], width=widths[image])
        instance = reading.read(image=image, id_=id_ or 0, label=label)
        for kind, problem in reading.problems:
            parse.note(image, name, kind, problem)
        if instance is not None:
            found.append(instance)
    return found


def _id_of(record: Any, key: str) -> int | None:
    value = record.get(key) if isinstance(record, dict) else None
    return value if type(value) is int and -_INT64 <= value < _INT64 else None


def _look_up(table: Mapping[int, int], record: Any, key: str) -> int | None:
    id_ = _id_of(record, key)
    return None if id_ is None else table.get(id_)


@dataclass(kw_only=True)
class _Reading:
    """One annotation with a known image and category."""

    record: Mapping[str, Any]
    what: str
    height: int
    width: int
    problems: list[tuple[FaultKind, str]] = field(default_factory=list)

    def read(self, *, image: int, id_: int, label: int) -> Instance | None:
        box = self._box()
        if box is None:
            return None
        rings, runs = self._shape()
        if not rings and not runs:
            return None
        area = self.record.get("area")
        return Instance(
            image=image,
            id=id_,
            label=label,
            box=box,
            area=float(area) if area is not None and _is_number(area) else math.nan,
            is_crowd=self.record.get("iscrowd", 0) not in (0, None, False),
            rings=rings,
            runs=runs,
        )

    def _box(self) -> tuple[float, float, float, float] | None:
        numbers = self.record.get("bbox")
        is_box = isinstance(numbers, list) and len(numbers) == 4 and all(_is_number(side) for side in numbers)
        if not is_box or numbers is None:
            self._drop(FaultKind.BAD_RECORD, "has no bbox of four finite numbers")
            return None
        left, top, width, height = (float(side) for side in numbers)
        seen_width = min(left + width, self.width) - max(left, 0)
        seen_height = min(top + height, self.height) - max(top, 0)
        if seen_width < _MIN_SIDE or seen_height < _MIN_SIDE:
            where = "outside the image" if min(width, height) >= _MIN_SIDE else "of zero size"
            self._drop(FaultKind.EMPTY_BOX, f"has a bbox {where}")
            return None
        return left, top, width, height

    def _shape(self) -> tuple[list[array[float]], bytes]:
        segmentation = self.record.get("segmentation")
        if isinstance(segmentation, dict):
            try:
                return [], read_runs(segmentation, self.height, self.width)
            except ValueError as error:
                self._drop(FaultKind.BAD_MASK, f"has {error}")
                return [], b""
        if not isinstance(segmentation, list) or not segmentation:
            self._drop(FaultKind.BAD_MASK, "has no segmentation")
            return [], b""
        rings = [ring for ring in segmentation if ring is not None and len(ring) >= 6 and len(ring) % 2 == 0]
        rings = [ring for ring in rings if all(map(math.isfinite, ring))]
        if not rings:
            self._drop(FaultKind.BAD_MASK, "has no polygon of three or more finite points")
            return [], b""
        if len(rings) < len(segmentation):
            self.problems.append((FaultKind.BAD_MASK, f"{self.what} has invalid polygons; the others are used"))
        if any(self._leaves_image(ring) for ring in rings):
            self.problems.append((FaultKind.POLYGON_OUTSIDE, f"{self.what} has a polygon outside the image; clipped"))
        return rings, b""

    def _leaves_image(self, ring: array[float]) -> bool:
        x, y = ring[::2], ring[1::2]
        return min(x) < -_MARGIN or min(y) < -_MARGIN or max(x) > self.width + _MARGIN or max(y) > self.height + _MARGIN

    def _drop(self, kind: FaultKind, problem: str) -> None:
        self.problems.append((kind, f"{self.what} {problem}; skipped"))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -_INT64 < value < _INT64  # false for NaN and infinity
