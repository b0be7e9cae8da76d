"""Every fault of a class folder at once, with its path: what `trainmark data check` prints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from trainmark.datasets.faults import DataFault, FaultKind, printable
from trainmark.datasets.folder import FolderScan, scan_folder
from trainmark.datasets.jpeg import END_OF_IMAGE, MAX_PIXELS, Frame, decode_lenient, read_frame, why_not_jpeg
from trainmark.datasets.workers import choose_num_workers

_HEAD_BYTES = 65_536  # the frame header is in it, unless the file carries a large thumbnail or colour profile
_TAIL_BYTES = 4_096
_FILES_PER_TASK = 256


@dataclass(frozen=True, kw_only=True)
class SplitCount:
    name: str
    num_images: int
    images_per_class: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    root: Path
    decoded: bool
    """Whether every image was decoded, or only its beginning and end were looked at."""

    classes: tuple[str, ...]
    splits: tuple[SplitCount, ...]
    num_bytes: int
    num_ignored: int
    """Files of other types."""

    faults: tuple[DataFault, ...]

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def num_images(self) -> int:
        return sum(split.num_images for split in self.splits)


def check_folder(root: Path, *, decode: bool, num_workers: int | None = None) -> CheckReport:
    """Looks at every file. Threads, because the decoders let go of the interpreter and slow disks want many readers."""
    threads = choose_num_workers(num_workers)
    scan = scan_folder(root)
    paths = [path for split in scan.splits for path in split.paths()]
    tasks = [paths[start : start + _FILES_PER_TASK] for start in range(0, len(paths), _FILES_PER_TASK)]
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(partial(_check_files, scan.root, decode), tasks))
    file_faults = (fault for _, faults in results for fault in faults)
    return _report(scan, decode, num_bytes=sum(num_bytes for num_bytes, _ in results), file_faults=tuple(file_faults))


def _report(scan: FolderScan, decode: bool, *, num_bytes: int, file_faults: tuple[DataFault, ...]) -> CheckReport:
    counts = [{class_: len(files) for class_, files in split.files.items()} for split in scan.splits]
    return CheckReport(
        root=scan.root,
        decoded=decode,
        classes=tuple(scan.train.files),
        splits=tuple(
            SplitCount(name=split.name, num_images=sum(count.values()), images_per_class=count)
            for split, count in zip(scan.splits, counts, strict=True)
        ),
        num_bytes=num_bytes,
        num_ignored=sum(split.num_ignored for split in scan.splits),
        faults=tuple(sorted(scan.faults + file_faults, key=lambda fault: fault.path)),
    )


def _check_files(root: Path, decode: bool, paths: Sequence[str]) -> tuple[int, list[DataFault]]:
    num_bytes, faults = 0, []
    for path in paths:
        try:
            with open(root / path, "rb") as file:  # noqa: PTH123  Path.open costs as much again as the call itself
                num_bytes += os.fstat(file.fileno()).st_size
                fault = judge_image(path, file.read()) if decode else _judge_ends(path, file)
        except OSError as error:
            problem = error.strerror or str(error)
            fault = DataFault(path=printable(path), kind=FaultKind.UNREADABLE, problem=problem)
        if fault is not None:
            faults.append(fault)
    return num_bytes, faults


def _judge_ends(path: str, file: BinaryIO) -> DataFault | None:
    """Reads both ends of the file, and the whole only where they look wrong: a truncated file has no end marker."""
    head = file.read(_HEAD_BYTES)
    frame = read_frame(head)
    size = os.fstat(file.fileno()).st_size
    if frame is not None and size > len(head):
        file.seek(max(len(head), size - _TAIL_BYTES))
        head += file.read()
    if frame is None or not _is_ended(head, frame):
        file.seek(0)
        head = file.read()
    return _judge_header(path, head)


def judge_image(path: str, data: bytes) -> DataFault | None:
    """Decodes the image; the fault is the first that applies."""
    fault = _judge_header(path, data)
    if fault is not None and fault.kind is not FaultKind.MODE:
        return fault
    pixels, problem = decode_lenient(data)
    if problem is None:
        return fault
    return DataFault(path=printable(path), kind=FaultKind.CORRUPT, problem=problem, usable=pixels is not None)


def _judge_header(path: str, data: bytes) -> DataFault | None:
    def fault(kind: FaultKind, problem: str, *, usable: bool = False) -> DataFault:
        return DataFault(path=printable(path), kind=kind, problem=problem, usable=usable)

    if not data:
        return fault(FaultKind.EMPTY_FILE, "zero bytes")
    frame = read_frame(data)
    if frame is None:
        cut_short = data[:2] == b"\xff\xd8"
        kind = FaultKind.TRUNCATED if cut_short else FaultKind.NOT_JPEG
        return fault(kind, why_not_jpeg(data), usable=not cut_short and decode_lenient(data)[0] is not None)
    if frame.height * frame.width > MAX_PIXELS:
        return fault(FaultKind.TOO_LARGE, f"claims {frame.width} x {frame.height} pixels")
    if not _is_ended(data, frame):
        return fault(
            FaultKind.TRUNCATED, "no end marker: the file was cut short", usable=decode_lenient(data)[0] is not None
        )
    if frame.num_components not in (1, 3):
        colour = "CMYK" if frame.num_components == 4 else f"{frame.num_components} channels"
        return fault(FaultKind.MODE, f"{colour} instead of colour or grey; converted", usable=frame.num_components == 4)
    return None


def _is_ended(data: bytes, frame: Frame) -> bool:
    # Inside compressed pixels 0xFF is always followed by 0x00, so after the frame header this is the marker or nothing.
    return data.find(END_OF_IMAGE, frame.end) >= 0
