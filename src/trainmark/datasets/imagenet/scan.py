"""Lists a class folder, `DIR/train/<class>/*.jpg` and `DIR/val/<class>/*.jpg`, as torchvision's ImageFolder does.

Unlike torchvision it skips hidden files and folders: a cache in train/ would shift every label after it.

It lists names and opens nothing: one system call for some hundred files, so all of ImageNet takes seconds. A link that
points outside DIR is a fault, wherever it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.datasets.inside import is_hidden, judge_link, resolve_folder
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError

SUFFIXES = (".jpg", ".jpeg")  # in any case: ImageNet's files end in .JPEG


@dataclass(frozen=True, kw_only=True)
class SplitScan:
    name: str
    files: Mapping[str, tuple[str, ...]]
    """Class to file names, both sorted."""

    num_ignored: int
    """Hidden files, and files of other types, which torchvision does not read either."""

    faults: tuple[DataFault, ...]

    def paths(self) -> Iterator[str]:
        return (f"{self.name}/{class_}/{file}" for class_, files in self.files.items() for file in files)


@dataclass(frozen=True, kw_only=True)
class FolderScan:
    root: Path
    """Without links."""

    train: SplitScan
    val: SplitScan | None
    faults: tuple[DataFault, ...]
    """Faults of the layout, in both splits."""

    @property
    def splits(self) -> tuple[SplitScan, ...]:
        return (self.train,) if self.val is None else (self.train, self.val)


@dataclass(kw_only=True)
class _Walk:
    """The scan of one split."""

    root: str
    suffixes: tuple[str, ...]
    num_ignored: int = 0
    faults: list[DataFault] = field(default_factory=list)

    def list_class(self, folder: str) -> tuple[str, ...]:
        names = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if is_hidden(entry.name) or not entry.name.lower().endswith(self.suffixes):
                        self.num_ignored += 1
                    elif entry.is_symlink():
                        if self.admits_link(entry.path) and entry.is_file():
                            names.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        names.append(entry.name)
        except OSError as error:
            self.add(folder, FaultKind.UNREADABLE, error.strerror or str(error))
            return ()
        if not names:
            self.add(folder, FaultKind.EMPTY_CLASS, f"contains no {' or '.join(self.suffixes)} file")
        return tuple(sorted(names))

    def admits_link(self, path: str) -> bool:
        fault = judge_link(self.root, os.path.relpath(path, self.root))
        self.faults += [] if fault is None else [fault]
        return fault is None

    def add(self, path: str, kind: FaultKind, problem: str) -> None:
        self.faults.append(DataFault(path=printable(os.path.relpath(path, self.root)), kind=kind, problem=problem))


def _scan_split(root: Path, name: str, suffixes: tuple[str, ...]) -> SplitScan:
    walk = _Walk(root=str(root), suffixes=suffixes)
    top = str(root / name)
    classes: list[str] = []
    if not Path(top).is_symlink() or walk.admits_link(top):
        try:
            with os.scandir(top) as entries:
                for entry in entries:
                    if is_hidden(entry.name):
                        walk.num_ignored += 1
                    elif entry.is_symlink() and not walk.admits_link(entry.path):
                        continue
                    elif entry.is_dir():
                        classes.append(entry.name)
                    else:
                        walk.num_ignored += 1
        except OSError as error:
            walk.add(top, FaultKind.UNREADABLE, error.strerror or str(error))
    files = {class_: walk.list_class(f"{top}/{class_}") for class_ in sorted(classes)}
    if not files and not walk.faults:
        walk.add(top, FaultKind.NO_CLASSES, "contains no class folders")
    return SplitScan(name=name, files=files, num_ignored=walk.num_ignored, faults=tuple(walk.faults))


def scan_folder(root: Path, *, suffixes: tuple[str, ...] = SUFFIXES) -> FolderScan:
    """Collects faults inside the folder. Raises DataError if it is not a class folder at all."""
    resolved = resolve_folder(root, holding="train and val")
    if not os.path.lexists(resolved / "train"):
        raise DataError(
            f"{root} has no train folder",
            why="the layout is train/<class>/*.jpg and val/<class>/*.jpg",
            hint="give the folder that contains train and val, not one of these; "
            "`trainmark data make imagenet DIR` makes one to try with",
        )
    train = _scan_split(resolved, "train", suffixes)
    val = _scan_split(resolved, "val", suffixes) if os.path.lexists(resolved / "val") else None
    faults = train.faults if val is None else train.faults + val.faults + _unknown_classes(train, val)
    return FolderScan(root=resolved, train=train, val=val, faults=faults)


def _unknown_classes(train: SplitScan, val: SplitScan) -> tuple[DataFault, ...]:
    unknown = (class_ for class_ in val.files if class_ not in train.files)
    return tuple(
        DataFault(path=printable(f"val/{class_}"), kind=FaultKind.UNKNOWN_CLASS, problem="not a class of train")
        for class_ in unknown
    )
