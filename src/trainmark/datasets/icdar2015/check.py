"""Finds all faults of an ICDAR 2015 folder, for `trainmark data check icdar2015`."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.datasets.icdar2015.scan import SplitScan, scan_folder
from trainmark.datasets.icdar2015.words import MAX_LABEL_BYTES, Word, fit_words, parse_words
from trainmark.datasets.inside import MAX_FILE_BYTES
from trainmark.datasets.jpeg import jpeg_size
from trainmark.datasets.jpeg_check import check_jpegs
from trainmark.datasets.report import CheckReport, DataFault, FaultKind, SplitCount, printable
from trainmark.datasets.workers import choose_num_workers

_HEAD_BYTES = 65_536  # contains the size unless the file has a large thumbnail or colour profile


@dataclass(frozen=True, kw_only=True)
class _LabelCheck:
    num_bytes: int
    words: tuple[Word, ...]
    faults: tuple[DataFault, ...]


def check_folder(root: Path, *, decode: bool, num_workers: int | None = None) -> CheckReport:
    """Checks every image and label file; words are compared with the size of their image."""
    scan = scan_folder(root)
    images = [path for split in scan.splits for path in split.images]
    num_bytes, faults = check_jpegs(scan.root, images, decode=decode, num_workers=num_workers)
    splits = []
    with ThreadPoolExecutor(choose_num_workers(num_workers)) as pool:
        for split in scan.splits:
            pairs = [pair for pair in zip(split.images, split.labels, strict=True) if pair[1] is not None]
            checks = list(pool.map(partial(_check_label, scan.root), pairs))
            splits.append(_count(split, checks))
            num_bytes += sum(check.num_bytes for check in checks)
            faults += tuple(fault for check in checks for fault in check.faults)
    return CheckReport(
        root=scan.root,
        unit="images",
        decoded=decode,
        classes=("text",),
        splits=tuple(splits),
        num_bytes=num_bytes,
        num_ignored=sum(split.num_ignored for split in scan.splits),
        faults=tuple(sorted(scan.faults + faults, key=lambda fault: fault.path)),
    )


def _count(split: SplitScan, checks: Iterable[_LabelCheck]) -> SplitCount:
    words = [word for check in checks for word in check.words]
    num_ignored = sum(word.is_ignored for word in words)
    counts = {"words": len(words) - num_ignored, "do_not_care": num_ignored}
    return SplitCount(name=split.name, num_samples=len(split.images), counts=counts)


def _check_label(root: Path, pair: tuple[str, str]) -> _LabelCheck:
    image, label = pair
    try:
        with (root / label).open("rb") as file:
            data = file.read(MAX_LABEL_BYTES + 1)
    except OSError as error:
        problem = error.strerror or str(error)
        fault = DataFault(path=printable(label), kind=FaultKind.UNREADABLE, problem=problem)
        return _LabelCheck(num_bytes=0, words=(), faults=(fault,))
    words, problems = parse_words(data)
    is_lost = bool(problems) and not words  # if there are good lines, bad ones are skipped and only noted
    if (size := _image_size(root / image)) is not None:
        words, more = fit_words(words, height=size[0], width=size[1])
        problems += more
    faults = tuple(
        DataFault(path=printable(label), kind=p.kind, problem=p.what, usable=not is_lost, is_entry=not is_lost)
        for p in problems
    )
    return _LabelCheck(num_bytes=len(data), words=tuple(words), faults=faults)


def _image_size(path: Path) -> tuple[int, int] | None:
    """None if the image itself is faulty, which is reported already."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            return jpeg_size(head) or jpeg_size(head + file.read(MAX_FILE_BYTES))
    except OSError:
        return None
