"""Finds all faults of class folders or list files, for `trainmark data check imagenet`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainmark.datasets.imagenet.lists import ListedSplit, has_lists, scan_lists
from trainmark.datasets.imagenet.scan import FolderScan, scan_folder
from trainmark.datasets.jpeg_check import check_jpegs
from trainmark.datasets.report import CheckReport, DataFault, SplitCount, printable


def check_folder(root: Path, *, decode: bool, num_workers: int | None = None) -> CheckReport:
    """Checks every file."""
    if has_lists(root):
        return _check_lists(root, decode=decode, num_workers=num_workers)
    scan = scan_folder(root)
    paths = [path for split in scan.splits for path in split.paths()]
    num_bytes, file_faults = check_jpegs(scan.root, paths, decode=decode, num_workers=num_workers)
    return _report(scan, decode, num_bytes=num_bytes, file_faults=file_faults)


def _check_lists(root: Path, *, decode: bool, num_workers: int | None) -> CheckReport:
    scan = scan_lists(root)
    absent = {fault.path for fault in scan.faults}
    paths = [path for split in scan.splits for path in split.paths if printable(path) not in absent]
    num_bytes, file_faults = check_jpegs(scan.root, paths, decode=decode, num_workers=num_workers)
    return CheckReport(
        root=scan.root,
        unit="images",
        decoded=decode,
        classes=tuple(str(label) for label in range(scan.num_classes)),
        splits=tuple(
            SplitCount(name=split.name, num_samples=len(split.paths), counts=_count_labels(split))
            for split in scan.splits
        ),
        num_bytes=num_bytes,
        num_ignored=0,
        faults=tuple(sorted((*scan.faults, *file_faults), key=lambda fault: fault.path)),
    )


def _count_labels(split: ListedSplit) -> dict[str, int]:
    labels, counts = np.unique(split.labels, return_counts=True)
    return {str(label): int(count) for label, count in zip(labels.tolist(), counts.tolist(), strict=True)}


def _report(scan: FolderScan, decode: bool, *, num_bytes: int, file_faults: tuple[DataFault, ...]) -> CheckReport:
    counts = [{class_: len(files) for class_, files in split.files.items()} for split in scan.splits]
    return CheckReport(
        root=scan.root,
        unit="images",
        decoded=decode,
        classes=tuple(scan.train.files),
        splits=tuple(
            SplitCount(name=split.name, num_samples=sum(count.values()), counts=count)
            for split, count in zip(scan.splits, counts, strict=True)
        ),
        num_bytes=num_bytes,
        num_ignored=sum(split.num_ignored for split in scan.splits),
        faults=tuple(sorted(scan.faults + file_faults, key=lambda fault: fault.path)),
    )
