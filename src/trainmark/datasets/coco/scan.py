"""COCO on disk: annotation files and the images they name, with one listing of each folder. Opens no image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.coco.parse import parse_split
from trainmark.datasets.coco.tables import SPLITS, CocoSplit, annotation_file
from trainmark.datasets.inside import is_hidden, judge_link
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError

MAX_MISSING_SHARE = 0.01
"""A copy with more missing images is refused as incomplete. With fewer, a run skips and reports them."""


@dataclass(frozen=True, kw_only=True)
class CocoScan:
    """All that was found, with faults."""

    root: Path
    splits: tuple[CocoSplit, ...]
    faults: tuple[DataFault, ...]
    num_ignored: int


def scan_coco(root: Path) -> CocoScan:
    resolved = _resolve(root)
    names = [name for name in SPLITS if name == SPLITS[0] or _has_split(resolved, name)]
    splits: list[CocoSplit] = []
    faults: list[DataFault] = []
    num_ignored = 0
    for name in names:
        split, found = parse_split(resolved, name)
        faults += found
        if split is not None:
            file_faults, ignored = _find_files(resolved, split)
            faults += file_faults
            num_ignored += ignored
            splits.append(split)
    if len(splits) == 2 and splits[0].categories != splits[1].categories:
        problem = f"has different categories than {annotation_file(SPLITS[0])}"
        faults.append(DataFault(path=annotation_file(SPLITS[1]), kind=FaultKind.OTHER_CATEGORIES, problem=problem))
    return CocoScan(root=resolved, splits=tuple(splits), faults=tuple(faults), num_ignored=num_ignored)


def _has_split(root: Path, name: str) -> bool:
    """The validation split may be absent, but not only its images or its annotations."""
    return (root / name).exists() or (root / annotation_file(name)).exists()


def _resolve(root: Path) -> Path:
    try:
        resolved = root.resolve(strict=True)
        is_layout = resolved.is_dir() and any(_has_split(resolved, name) for name in SPLITS)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{root} cannot be read",
            why=getattr(error, "strerror", None) or str(error),
            hint="check the spelling, the permissions, and that the disk is mounted",
        ) from error
    if not is_layout:
        raise DataError(
            f"{root} is not in COCO's layout",
            why="neither train2017 nor annotations/instances_train2017.json found",
            hint="give the folder that contains annotations, train2017 and val2017; "
            "`trainmark data make coco DIR` makes one to try with",
        )
    return resolved


def _find_files(root: Path, split: CocoSplit) -> tuple[list[DataFault], int]:
    """Faults of the files that the annotations name, and the number of other files."""
    wanted = split.images.names.tolist()
    listed, faults = _list_folder(root, split.name, frozenset(wanted))
    if listed is None:
        return faults, 0
    in_folders = [name for name in wanted if "/" in name]
    for name in in_folders:  # not in COCO itself, but in similar data sets
        fault = _judge_path(root, f"{split.name}/{name}")
        if fault is not None:
            faults.append(fault)
    links = {fault.path for fault in faults}
    for name in wanted:
        path = f"{split.name}/{name}"
        if "/" not in name and name not in listed and printable(path) not in links:
            faults.append(DataFault(path=printable(path), kind=FaultKind.MISSING_IMAGE, problem="missing"))
    num_ignored = len(listed.difference(wanted))
    return faults, num_ignored


def _list_folder(root: Path, name: str, wanted: frozenset[str]) -> tuple[set[str] | None, list[DataFault]]:
    """A hidden link is checked only if the annotations name it, because otherwise it is never opened."""
    folder = root / name
    names: set[str] = set()
    faults: list[DataFault] = []
    try:
        if folder.is_symlink() and (fault := judge_link(str(root), name)) is not None:
            return None, [fault]
        with os.scandir(folder) as entries:
            for entry in entries:
                is_idle = is_hidden(entry.name) and entry.name not in wanted
                fault = _judge_path(root, f"{name}/{entry.name}") if entry.is_symlink() and not is_idle else None
                if fault is not None:
                    faults.append(fault)
                elif is_idle or entry.is_file():
                    names.add(entry.name)
    except OSError as error:
        problem = error.strerror or str(error)
        return None, [DataFault(path=name, kind=FaultKind.UNREADABLE, problem=problem)]
    return names, faults


def _judge_path(root: Path, path: str) -> DataFault | None:
    if not os.path.lexists(root / path):
        return DataFault(path=printable(path), kind=FaultKind.MISSING_IMAGE, problem="missing")
    fault = judge_link(str(root), path)
    if fault is None and not (root / path).is_file():
        return DataFault(path=printable(path), kind=FaultKind.DANGLING, problem="not a file")
    return fault
