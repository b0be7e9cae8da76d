"""Finds all faults of a folder of clips, for `trainmark data check kinetics`.

Threads check a few clips at a time and keep only the frame names of one clip, because Kinetics has 70 million frames.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from trainmark.datasets.inside import OutsideError, is_hidden, real_path
from trainmark.datasets.jpeg_check import check_files
from trainmark.datasets.kinetics.lists import Clip
from trainmark.datasets.kinetics.read import frame_name
from trainmark.datasets.kinetics.scan import ClipScan, scan_clips
from trainmark.datasets.kinetics.video import NoFramesError, check_video
from trainmark.datasets.report import CheckReport, DataFault, FaultKind, SplitCount, printable
from trainmark.datasets.workers import choose_num_workers

_CLIPS_PER_TASK = 16
_MAX_NAMED = 3


def check_clips(root: Path, *, decode: bool, num_workers: int | None = None) -> CheckReport:
    """Checks every file of every listed clip."""
    scan = scan_clips(root)
    clips = [clip for split in scan.splits.values() for clip in split]
    tasks = [clips[start : start + _CLIPS_PER_TASK] for start in range(0, len(clips), _CLIPS_PER_TASK)]
    with ThreadPoolExecutor(choose_num_workers(num_workers)) as pool:
        results = list(pool.map(partial(_check_some, scan.root, decode), tasks))
    num_bytes = sum(some_bytes for some_bytes, _ in results)
    return _report(scan, decode, num_bytes, tuple(fault for _, faults in results for fault in faults))


def _report(scan: ClipScan, decode: bool, num_bytes: int, faults: tuple[DataFault, ...]) -> CheckReport:
    splits = []
    for name, clips in scan.splits.items():
        per_class = Counter(clip.label for clip in clips)
        counts = {scan.classes[label]: number for label, number in sorted(per_class.items())}
        splits.append(SplitCount(name=name, num_samples=len(clips), counts=counts))
    return CheckReport(
        root=scan.root,
        unit="clips",
        decoded=decode,
        classes=scan.classes,
        splits=tuple(splits),
        num_bytes=num_bytes,
        num_ignored=scan.num_ignored,
        faults=tuple(sorted(scan.faults + faults, key=lambda fault: fault.path)),
    )


def _check_some(root: Path, decode: bool, clips: Sequence[Clip]) -> tuple[int, list[DataFault]]:
    num_bytes, faults = 0, []
    for clip in clips:
        try:
            place = real_path(str(root), clip.path)
            check = _check_video if clip.num_frames is None else _check_frames
            clip_bytes, clip_faults = check(root, clip, place, decode)
        except OSError as error:
            clip_bytes, clip_faults = 0, [_fault(clip.path, _kind_of(error), error.strerror or str(error))]
        num_bytes += clip_bytes
        faults += clip_faults
    return num_bytes, faults


def _kind_of(error: OSError) -> FaultKind:
    if isinstance(error, OutsideError):
        return FaultKind.OUTSIDE
    return FaultKind.MISSING if isinstance(error, FileNotFoundError) else FaultKind.UNREADABLE


def _fault(path: str, kind: FaultKind, problem: str, *, usable: bool = False) -> DataFault:
    return DataFault(path=printable(path), kind=kind, problem=problem, usable=usable)


def _check_frames(root: Path, clip: Clip, folder: str, decode: bool) -> tuple[int, list[DataFault]]:
    if not clip.num_frames:
        return 0, [_fault(clip.path, FaultKind.NO_FRAMES, "listed with no frames")]
    faults: list[DataFault] = []
    names = _list_frames(root, clip, folder, faults)
    listed = [frame_name(number) for number in range(clip.num_frames)]
    missing = [name for name in listed if name not in names]
    if missing:
        problem = f"{len(missing)} of {clip.num_frames} listed frames are missing: {', '.join(missing[:_MAX_NAMED])}"
        kind = FaultKind.FEWER_FRAMES if len(missing) < len(listed) else FaultKind.NO_FRAMES
        faults.append(_fault(clip.path, kind, problem, usable=len(missing) < len(listed)))
    there = [f"{clip.path}/{name}" for name in listed if name in names]
    num_bytes, file_faults = check_files(root, decode, there)
    return num_bytes, faults + file_faults


def _list_frames(root: Path, clip: Clip, folder: str, faults: list[DataFault]) -> set[str]:
    """Names of files that may be opened; a link that points outside is a fault."""
    names = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            path = f"{clip.path}/{entry.name}"
            if entry.is_symlink():
                try:
                    real_path(str(root), path)
                except OutsideError as error:
                    faults.append(_fault(path, FaultKind.OUTSIDE, str(error.strerror)))
                    continue
            if entry.is_file():
                names.add(entry.name)
    return names


def _check_video(_: Path, clip: Clip, file: str, decode: bool) -> tuple[int, list[DataFault]]:
    num_bytes = Path(file).stat().st_size
    if num_bytes == 0:
        return 0, [_fault(clip.path, FaultKind.EMPTY_FILE, "zero bytes")]
    try:
        num_frames, problem = check_video(file, decode=decode)
    except ValueError as error:
        kind = FaultKind.NO_FRAMES if isinstance(error, NoFramesError) else FaultKind.CORRUPT
        return num_bytes, [_fault(clip.path, kind, str(error))]
    if problem is None:
        return num_bytes, []
    return num_bytes, [_fault(clip.path, FaultKind.CORRUPT, problem, usable=num_frames > 0)]
