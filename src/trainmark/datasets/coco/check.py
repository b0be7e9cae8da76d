"""Finds all faults of a COCO folder, for `trainmark data check coco`."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from trainmark.datasets.coco.layout import annotation_file
from trainmark.datasets.coco.scan import scan_coco
from trainmark.datasets.coco.tables import CocoSplit
from trainmark.datasets.jpeg import jpeg_size
from trainmark.datasets.jpeg_check import check_jpegs
from trainmark.datasets.report import CheckReport, DataFault, FaultKind, SplitCount, printable
from trainmark.datasets.workers import choose_num_workers

_HEAD_BYTES = 65_536
_IMAGES_PER_TASK = 256


def check_coco(root: Path, *, decode: bool, num_workers: int | None = None) -> CheckReport:
    """Checks every annotation record and every image that they name."""
    scan = scan_coco(root)
    absent = {fault.path for fault in scan.faults}
    num_bytes, faults = 0, [*scan.faults, *_without_annotations(scan.splits)]
    for split in scan.splits:
        indices = [index for index in range(len(split.images)) if printable(split.path(index)) not in absent]
        paths = [split.path(index) for index in indices]
        split_bytes, file_faults = check_jpegs(scan.root, paths, decode=decode, num_workers=num_workers)
        num_bytes += split_bytes
        unreadable = {fault.path for fault in file_faults if not fault.usable}
        readable = [index for index in indices if printable(split.path(index)) not in unreadable]
        faults += [*file_faults, *_check_sizes(scan.root, split, readable, choose_num_workers(num_workers))]
    classes = tuple(scan.splits[0].categories.values()) if scan.splits else ()
    return CheckReport(
        root=scan.root,
        unit="images",
        decoded=decode,
        classes=classes,
        splits=tuple(_count(split) for split in scan.splits),
        num_bytes=num_bytes,
        num_ignored=scan.num_ignored,
        faults=tuple(sorted(faults, key=lambda fault: fault.path)),
    )


def _without_annotations(splits: Iterable[CocoSplit]) -> list[DataFault]:
    """Bad annotations among good ones are only notes; if all are bad, there is nothing to train on."""
    paths = [annotation_file(split.name) for split in splits if split.problems and not len(split.instances)]
    problem = "none of its annotations can be used"
    return [DataFault(path=path, kind=FaultKind.EMPTY_ANNOTATIONS, problem=problem) for path in paths]


def _count(split: CocoSplit) -> SplitCount:
    instances = split.instances
    counts = np.bincount(instances.labels[~instances.is_crowd], minlength=len(split.categories) + 1)[1:]
    objects = dict(zip(split.categories.values(), counts.tolist(), strict=True))
    extra = {
        "crowds": int(instances.is_crowd.sum()),
        "images without annotations": int((np.diff(instances.first) == 0).sum()),
    }
    return SplitCount(name=split.name, num_samples=len(split.images), counts={**objects, **extra})


def _check_sizes(root: Path, split: CocoSplit, indices: list[int], num_workers: int) -> Iterable[DataFault]:
    tasks = [indices[start : start + _IMAGES_PER_TASK] for start in range(0, len(indices), _IMAGES_PER_TASK)]
    with ThreadPoolExecutor(num_workers) as pool:
        results = list(pool.map(partial(_compare_sizes, root, split), tasks))
    return [fault for faults in results for fault in faults]


def _compare_sizes(root: Path, split: CocoSplit, indices: list[int]) -> list[DataFault]:
    faults = []
    for index in indices:
        path = split.path(index)
        try:
            with (root / path).open("rb") as file:
                size = jpeg_size(file.read(_HEAD_BYTES))
        except OSError:
            continue  # already reported, or removed since
        stated = (int(split.images.heights[index]), int(split.images.widths[index]))
        if size is not None and size != stated:
            problem = f"is {size[1]} x {size[0]}, but the annotations say {stated[1]} x {stated[0]}"
            faults.append(DataFault(path=printable(path), kind=FaultKind.SIZE_MISMATCH, problem=problem))
    return faults
