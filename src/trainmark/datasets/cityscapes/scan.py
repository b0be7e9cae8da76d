"""Lists the images and labels of a Cityscapes folder and pairs them. Opens no file.

    DIR/leftImg8bit/{train,val}/<city>/<city>_<seq>_<frame>_leftImg8bit.png
    DIR/gtFine/{train,val}/<city>/<city>_<seq>_<frame>_gtFine_labelIds.png

A link that points outside DIR is a fault, wherever it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.datasets.inside import is_hidden, judge_link, resolve_folder
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError

IMAGES, LABELS = "leftImg8bit", "gtFine"
IMAGE_ENDING, LABEL_ENDING = "_leftImg8bit.png", "_gtFine_labelIds.png"

_LAYOUT = f"Cityscapes has {IMAGES}/train/<city>/*{IMAGE_ENDING} and {LABELS}/train/<city>/*{LABEL_ENDING}"


@dataclass(frozen=True, kw_only=True)
class SplitScan:
    name: str
    pairs: tuple[tuple[str, str], ...]
    """(image, label) relative to the root, sorted."""

    num_ignored: int
    """Hidden files and others, such as the polygons and colour images of the real gtFine."""

    faults: tuple[DataFault, ...]


@dataclass(frozen=True, kw_only=True)
class FolderScan:
    root: Path
    """Without links."""

    splits: tuple[SplitScan, ...]
    """`train`, and `val` where there is one."""

    @property
    def faults(self) -> tuple[DataFault, ...]:
        return tuple(fault for split in self.splits for fault in split.faults)


def scan_folder(root: Path) -> FolderScan:
    """Collects faults inside the folder. Raises DataError if it is not a Cityscapes folder at all."""
    resolved = resolve_folder(root, holding=f"{IMAGES} and {LABELS}")
    missing = [f"{half}/train" for half in (IMAGES, LABELS) if not os.path.lexists(resolved / half / "train")]
    if missing:
        raise DataError(
            f"{root} has no {' and no '.join(missing)} folder",
            why=_LAYOUT,
            hint=f"give the folder that contains {IMAGES} and {LABELS}; "
            "`trainmark data make cityscapes DIR` makes one to try with",
        )
    has_val = any(os.path.lexists(resolved / half / "val") for half in (IMAGES, LABELS))
    splits = tuple(_scan_split(resolved, split) for split in (("train", "val") if has_val else ("train",)))
    return FolderScan(root=resolved, splits=splits)


def _scan_split(root: Path, split: str) -> SplitScan:
    walk = _Walk(root=str(root))
    images = walk.list_half(f"{IMAGES}/{split}", IMAGE_ENDING)
    labels = walk.list_half(f"{LABELS}/{split}", LABEL_ENDING)
    for stem in sorted(images.keys() - labels.keys()):
        expected = f"{LABELS}/{split}/{stem}{LABEL_ENDING}"
        walk.add(images[stem], FaultKind.MISSING_LABEL, f"{printable(expected)} is missing")
    for stem in sorted(labels.keys() - images.keys()):
        expected = f"{IMAGES}/{split}/{stem}{IMAGE_ENDING}"
        walk.add(labels[stem], FaultKind.MISSING_IMAGE, f"{printable(expected)} is missing")
    pairs = tuple((images[stem], labels[stem]) for stem in sorted(images.keys() & labels.keys()))
    return SplitScan(name=split, pairs=pairs, num_ignored=walk.num_ignored, faults=tuple(walk.faults))


@dataclass(kw_only=True)
class _Walk:
    """The scan of one split. All paths are relative to the root."""

    root: str
    num_ignored: int = 0
    faults: list[DataFault] = field(default_factory=list)

    def list_half(self, top: str, ending: str) -> dict[str, str]:
        """`<city>/<city>_<seq>_<frame>` to the file's path."""
        if self._leads_outside(top):
            return {}
        cities = [entry.name for entry in self._entries(top) if self._admits(entry) and self._is_folder(entry)]
        if not cities and not any(fault.path == printable(top) for fault in self.faults):
            self.add(top, FaultKind.NO_CITIES, "contains no city folders")
        files: dict[str, str] = {}
        for city in cities:
            files |= self._list_city(top, city, ending)
        return files

    def _list_city(self, top: str, city: str, ending: str) -> dict[str, str]:
        folder, num_faults = f"{top}/{city}", len(self.faults)
        files = {}
        for entry in self._entries(folder):
            if not entry.name.endswith(ending):
                self.num_ignored += 1
            elif self._admits(entry) and entry.is_file():
                files[f"{city}/{entry.name.removesuffix(ending)}"] = f"{folder}/{entry.name}"
        if not files and len(self.faults) == num_faults:
            self.add(folder, FaultKind.EMPTY_CITY, f"contains no file *{ending}")
        return files

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(f"{self.root}/{folder}") as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.add(folder, FaultKind.UNREADABLE, error.strerror or str(error))
            return []
        seen = [entry for entry in found if not is_hidden(entry.name)]
        self.num_ignored += len(found) - len(seen)
        return seen

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        if entry.is_dir():
            return True
        self.num_ignored += 1
        return False

    def _admits(self, entry: os.DirEntry[str]) -> bool:
        return not entry.is_symlink() or self._admits_link(os.path.relpath(entry.path, self.root))

    def _leads_outside(self, top: str) -> bool:
        """For `leftImg8bit`, `gtFine` or a split that is a link itself."""
        target = os.path.realpath(f"{self.root}/{top}")
        return target != f"{self.root}/{top}" and not self._admits_link(top)

    def _admits_link(self, path: str) -> bool:
        fault = judge_link(self.root, path)
        self.faults += [] if fault is None else [fault]
        return fault is None

    def add(self, path: str, kind: FaultKind, problem: str) -> None:
        self.faults.append(DataFault(path=printable(path), kind=kind, problem=problem))
