"""Which image files of a split are there. One listing of the folder, whatever the annotation file names."""

from __future__ import annotations

import os
from pathlib import Path

from trainmark.datasets.coco.tables import CocoSplit
from trainmark.datasets.faults import DataFault, FaultKind, printable
from trainmark.datasets.hidden import is_hidden

MAX_MISSING_SHARE = 0.01
"""Above this the copy is called incomplete. Below, a run goes on without what is missing, and says so."""


def find_files(root: Path, split: CocoSplit) -> tuple[list[DataFault], int]:
    """Faults of files that the annotations name, and how many files they do not name."""
    wanted = split.images.names.tolist()
    listed, faults = _list_folder(root, split.name, frozenset(wanted))
    if listed is None:
        return faults, 0
    in_folders = [name for name in wanted if "/" in name]
    for name in in_folders:  # COCO has none; sets made after it do
        fault = _judge_path(root, f"{split.name}/{name}")
        if fault is not None:
            faults.append(fault)
    links = {fault.path for fault in faults}
    for name in wanted:
        path = f"{split.name}/{name}"
        if "/" not in name and name not in listed and printable(path) not in links:
            faults.append(DataFault(path=printable(path), kind=FaultKind.MISSING_IMAGE, problem="is not there"))
    num_ignored = len(listed.difference(wanted))
    return faults, num_ignored


def _list_folder(root: Path, name: str, wanted: frozenset[str]) -> tuple[set[str] | None, list[DataFault]]:
    """A hidden link is judged only where the annotations name it: nothing else opens it."""
    folder = root / name
    names: set[str] = set()
    faults: list[DataFault] = []
    try:
        if folder.is_symlink() and not _stays_inside(root, folder):
            problem = "a link that leads outside the folder"
            return None, [DataFault(path=name, kind=FaultKind.OUTSIDE, problem=problem)]
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
    full = root / path
    if not os.path.lexists(full):
        return DataFault(path=printable(path), kind=FaultKind.MISSING_IMAGE, problem="is not there")
    if not _stays_inside(root, full):
        return DataFault(path=printable(path), kind=FaultKind.OUTSIDE, problem="a link that leads outside the folder")
    if not full.is_file():
        return DataFault(path=printable(path), kind=FaultKind.DANGLING, problem="a link to nothing")
    return None


def _stays_inside(root: Path, path: Path) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(root)}{os.sep}")
