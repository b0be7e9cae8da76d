"""COCO on disk: annotation files and the images they name, with one listing of each folder. Opens no image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.coco.layout import Layout, annotation_file, find_layout
from trainmark.datasets.coco.parse import parse_split
from trainmark.datasets.coco.tables import CocoSplit
from trainmark.datasets.inside import is_hidden, judge_link
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError

MAX_MISSING_SHARE = 0.01
"""A copy with more missing images is refused as incomplete. With fewer, a run skips and reports them."""


@dataclass(frozen=True, kw_only=True)
class CocoScan:
    """All that was found, with faults."""

    root: Path
    layout: Layout
    splits: tuple[CocoSplit, ...]
    """In the layout's order; one whose annotations cannot be used is among the faults only."""
    faults: tuple[DataFault, ...]
    num_ignored: int


def scan_coco(root: Path) -> CocoScan:
    resolved, layout = _resolve(root)
    splits: list[CocoSplit] = []
    faults: list[DataFault] = []
    others: dict[str, set[str]] = {}
    for part in layout:
        split, found = parse_split(resolved, part)
        faults += found
        if split is not None:
            file_faults, strangers = _find_files(resolved, split)
            faults += file_faults
            # Two annotation files may share a folder: a file that one of them names is no stranger.
            others[part.folder] = others.get(part.folder, strangers) & strangers
            splits.append(split)
    for split in splits[1:]:
        if split.categories != splits[0].categories:
            problem = f"has different categories than {annotation_file(splits[0].name)}"
            faults.append(DataFault(path=annotation_file(split.name), kind=FaultKind.OTHER_CATEGORIES, problem=problem))
    num_ignored = sum(map(len, others.values()))
    return CocoScan(root=resolved, layout=layout, splits=tuple(splits), faults=tuple(faults), num_ignored=num_ignored)


def _resolve(root: Path) -> tuple[Path, Layout]:
    try:
        resolved = root.resolve(strict=True)
        layout = find_layout(resolved) if resolved.is_dir() else None
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{root} cannot be read",
            why=getattr(error, "strerror", None) or str(error),
            hint="check the spelling, the permissions, and that the disk is mounted",
        ) from error
    if layout is None:
        raise DataError(
            f"{root} is not in COCO's layout",
            why="neither train2017 nor annotations/instances_train2017.json found, nor those of 2014",
            hint="give the folder that contains annotations, train2017 and val2017; "
            "`trainmark data make coco DIR` makes one to try with",
        )
    return resolved, layout


def _find_files(root: Path, split: CocoSplit) -> tuple[list[DataFault], set[str]]:
    """Faults of the files that the annotations name, and the other files of the folder."""
    wanted = split.images.names.tolist()
    listed, faults = _list_folder(root, split.folder, frozenset(wanted))
    if listed is None:
        return faults, set()
    in_folders = [name for name in wanted if "/" in name]
    for name in in_folders:  # not in COCO itself, but in similar data sets
        fault = _judge_path(root, f"{split.folder}/{name}")
        if fault is not None:
            faults.append(fault)
    links = {fault.path for fault in faults}
    for name in wanted:
        path = f"{split.folder}/{name}"
        if "/" not in name and name not in listed and printable(path) not in links:
            faults.append(DataFault(path=printable(path), kind=FaultKind.MISSING_IMAGE, problem="missing"))
    return faults, listed.difference(wanted)


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
