"""Finds all faults of a Cityscapes folder, for `trainmark data check cityscapes`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.datasets.cityscapes.labels import CLASSES, IGNORED, TRAIN_IDS
from trainmark.datasets.cityscapes.read import UnusablePairError, find_mismatch, load_ids, load_image, refuse_too_large
from trainmark.datasets.cityscapes.scan import SplitScan, scan_folder
from trainmark.datasets.png import END_CHUNK, HEADER_BYTES, PngError, read_header
from trainmark.datasets.report import CheckReport, DataFault, FaultKind, SplitCount, printable
from trainmark.datasets.workers import choose_num_workers

_PAIRS_PER_TASK = 16
_TAIL_BYTES = 4_096

Size = tuple[int, ...]


@dataclass(kw_only=True)
class _Findings:
    num_bytes: int = 0
    faults: list[DataFault] = field(default_factory=list)
    num_with_class: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(CLASSES), np.int64))
    """Number of label images that contain each class."""


def check_folder(root: Path, *, decode: bool, num_workers: int | None = None) -> CheckReport:
    """Checks every file. Uses threads: the decoder releases the GIL, and slow disks need many readers."""
    scan = scan_folder(root)
    with ThreadPoolExecutor(choose_num_workers(num_workers)) as pool:
        findings = [_check_split(pool, scan.root, split, decode) for split in scan.splits]
    faults = [fault for found in findings for fault in found.faults]
    return CheckReport(
        root=scan.root,
        unit="images",
        decoded=decode,
        classes=CLASSES,
        splits=tuple(_count(split, found, decode) for split, found in zip(scan.splits, findings, strict=True)),
        num_bytes=sum(found.num_bytes for found in findings),
        num_ignored=sum(split.num_ignored for split in scan.splits),
        faults=tuple(sorted([*scan.faults, *faults], key=lambda fault: fault.path)),
    )


def _count(split: SplitScan, found: _Findings, decode: bool) -> SplitCount:
    counts = dict(zip(CLASSES, found.num_with_class.tolist(), strict=True)) if decode else {}
    return SplitCount(name=split.name, num_samples=len(split.pairs), counts=counts)


def _check_split(pool: ThreadPoolExecutor, root: Path, split: SplitScan, decode: bool) -> _Findings:
    tasks = [split.pairs[start : start + _PAIRS_PER_TASK] for start in range(0, len(split.pairs), _PAIRS_PER_TASK)]
    total = _Findings()
    for found in pool.map(partial(_check_pairs, root, decode), tasks):
        total.num_bytes += found.num_bytes
        total.faults += found.faults
        total.num_with_class += found.num_with_class
    return total


def _check_pairs(root: Path, decode: bool, pairs: Sequence[tuple[str, str]]) -> _Findings:
    found = _Findings()
    for image_path, label_path in pairs:
        sizes = [
            _decoded_size(root, path, found) if decode else _claimed_size(root, path, found)
            for path in (image_path, label_path)
        ]
        if sizes[0] is not None and sizes[1] is not None:
            mismatch = find_mismatch(label_path, sizes[0], sizes[1])
            found.faults += [mismatch] if mismatch is not None else []
    return found


def _decoded_size(root: Path, path: str, found: _Findings) -> Size | None:
    is_label = path.endswith("labelIds.png")
    try:
        found.num_bytes += (root / path).stat().st_size
        pixels, fault = load_ids(root, path) if is_label else load_image(root, path)
    except UnusablePairError as error:
        found.faults.append(error.fault)
        return None
    except OSError as error:
        found.faults.append(_unreadable(path, error))
        return None
    found.faults += [fault] if fault is not None else []
    if is_label:
        occurring = np.bincount(TRAIN_IDS[np.flatnonzero(np.bincount(pixels.ravel()))], minlength=IGNORED + 1)
        found.num_with_class += occurring[: len(CLASSES)]
    return pixels.shape[:2]


def _claimed_size(root: Path, path: str, found: _Findings) -> Size | None:
    """Reads only both ends of the file."""
    try:
        with (root / path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found.num_bytes += size
            refuse_too_large(size)
            header = read_header(file.read(HEADER_BYTES))
            file.seek(max(0, size - _TAIL_BYTES))
            if END_CHUNK not in file.read():
                raise PngError(FaultKind.TRUNCATED, "truncated: no end chunk")
    except PngError as error:
        found.faults.append(DataFault(path=printable(path), kind=error.kind, problem=error.problem))
        return None
    except OSError as error:
        found.faults.append(_unreadable(path, error))
        return None
    return header.height, header.width


def _unreadable(path: str, error: OSError) -> DataFault:
    return DataFault(path=printable(path), kind=FaultKind.UNREADABLE, problem=error.strerror or str(error))
