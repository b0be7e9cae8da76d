"""Checks JPEG files in threads; used by the checks of all image formats."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import BinaryIO

from trainmark.datasets.inside import why_too_large
from trainmark.datasets.jpeg import END_OF_IMAGE, MAX_PIXELS, Frame, decode_lenient, read_frame, why_not_jpeg
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.datasets.workers import choose_num_workers

_HEAD_BYTES = 65_536  # contains the frame header unless the file has a large thumbnail or colour profile
_TAIL_BYTES = 4_096
_FILES_PER_TASK = 256


def check_jpegs(
    root: Path, paths: Sequence[str], *, decode: bool, num_workers: int | None
) -> tuple[int, tuple[DataFault, ...]]:
    """Total bytes, and faults. Uses threads: decoders release the GIL, and slow disks need many readers."""
    tasks = [paths[start : start + _FILES_PER_TASK] for start in range(0, len(paths), _FILES_PER_TASK)]
    with ThreadPoolExecutor(choose_num_workers(num_workers)) as pool:
        results = list(pool.map(partial(check_files, root, decode), tasks))
    return sum(num_bytes for num_bytes, _ in results), tuple(fault for _, faults in results for fault in faults)


def check_files(root: Path, decode: bool, paths: Sequence[str]) -> tuple[int, list[DataFault]]:
    """For a format that divides its files among threads itself."""
    num_bytes, faults = 0, []
    for path in paths:
        try:
            with open(root / path, "rb") as file:  # noqa: PTH123  Path.open doubles the cost of the call
                size = os.fstat(file.fileno()).st_size
                num_bytes += size
                fault = _judge_file(path, file, size, decode)
        except OSError as error:
            problem = error.strerror or str(error)
            fault = DataFault(path=printable(path), kind=FaultKind.UNREADABLE, problem=problem)
        if fault is not None:
            faults.append(fault)
    return num_bytes, faults


def _judge_file(path: str, file: BinaryIO, size: int, decode: bool) -> DataFault | None:
    if (problem := why_too_large(size)) is not None:
        return DataFault(path=printable(path), kind=FaultKind.TOO_LARGE, problem=problem)
    return judge_image(path, file.read(size)) if decode else _judge_ends(path, file, size)


def _judge_ends(path: str, file: BinaryIO, size: int) -> DataFault | None:
    """Reads both ends of the file, and all of it only if these look wrong: a truncated file has no end marker."""
    head = file.read(_HEAD_BYTES)
    frame = read_frame(head)
    if frame is not None and size > len(head):
        file.seek(max(len(head), size - _TAIL_BYTES))
        head += file.read()
    if frame is None or not _is_ended(head, frame):
        file.seek(0)
        head = file.read(size)
    return _judge_header(path, head)


def judge_image(path: str, data: bytes) -> DataFault | None:
    """Decodes the image and reports the first fault that applies."""
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
        return fault(FaultKind.TRUNCATED, "truncated: no end marker", usable=decode_lenient(data)[0] is not None)
    if frame.num_components not in (1, 3):
        colour = "CMYK" if frame.num_components == 4 else f"{frame.num_components} channels"
        return fault(FaultKind.MODE, f"{colour} instead of colour or grey; converted", usable=frame.num_components == 4)
    return None


def _is_ended(data: bytes, frame: Frame) -> bool:
    # In compressed pixels 0xFF is always followed by 0x00, so after the frame header this can only be the marker.
    return data.find(END_OF_IMAGE, frame.end) >= 0
