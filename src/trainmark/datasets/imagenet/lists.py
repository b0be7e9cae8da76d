"""ImageNet as list files, as Paddle's models have it: `train_list.txt` and `val_list.txt`, a path and a label per line.

    train/n01440764/n01440764_10026.JPEG 0

Paths are relative to the folder itself, or to its train and val. A file that is listed but missing is a fault that a
run survives: it is named when it is loaded. Every folder is listed once, so all of ImageNet takes seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.datasets.inside import is_safe_name, judge_link, resolve_folder
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.units import format_count

NAMES = {"train": "train_list.txt", "val": "val_list.txt"}
MAX_CLASSES = 100_000  # a larger label is a mistake: ImageNet-21k has 21,841
MAX_MISSING_SHARE = 0.01
"""A copy with more missing images is refused as incomplete."""
_NUM_TRIED = 20
_LABEL = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True, eq=False)
class ListedSplit:
    name: str
    paths: tuple[str, ...]
    """Relative to the root, in the list's order."""

    labels: npt.NDArray[np.int64]
    faults: tuple[DataFault, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ListScan:
    root: Path
    """Without links."""

    train: ListedSplit
    val: ListedSplit | None

    @property
    def splits(self) -> tuple[ListedSplit, ...]:
        return (self.train,) if self.val is None else (self.train, self.val)

    @property
    def num_classes(self) -> int:
        return max((int(split.labels.max(initial=-1)) for split in self.splits), default=-1) + 1

    @property
    def faults(self) -> tuple[DataFault, ...]:
        return tuple(fault for split in self.splits for fault in split.faults)


def has_lists(root: Path) -> bool:
    """Where there is a list it decides, also beside class folders: Paddle's val folder has none."""
    return (root / NAMES["train"]).is_file()


def scan_lists(root: Path) -> ListScan:
    resolved = resolve_folder(root, holding=NAMES["train"])
    train = _scan_split(resolved, "train")
    val = _scan_split(resolved, "val") if (resolved / NAMES["val"]).is_file() else None
    return ListScan(root=resolved, train=train, val=val)


def _scan_split(root: Path, split: str) -> ListedSplit:
    paths: list[str] = []
    labels: list[int] = []
    faults: list[DataFault] = []
    for number, line in _lines(root, split, faults):
        found = _parse_line(line)
        if isinstance(found, str):
            kind = FaultKind.BAD_LINE
            faults.append(_fault(f"{NAMES[split]}:{number}", kind, found, is_entry=True))
        else:
            paths.append(found[0])
            labels.append(found[1])
    if not paths and not faults:
        faults.append(_fault(NAMES[split], FaultKind.EMPTY_LIST, "lists no image"))
    base = _find_base(root, split, paths)
    if base is None:
        tried = format_count(min(_NUM_TRIED, len(paths)), "images")
        problem = f"none of its first {tried} exists, for example {printable(paths[0])}"
        faults.append(_fault(NAMES[split], FaultKind.MISSING, problem))
    else:
        paths = [base + path for path in paths]
        faults += _find_missing(root, paths)
    array = np.array(labels, dtype=np.int64)
    array.setflags(write=False)
    return ListedSplit(name=split, paths=tuple(paths), labels=array, faults=tuple(faults))


def _lines(root: Path, split: str, faults: list[DataFault]) -> Iterator[tuple[int, str]]:
    try:
        data = (root / NAMES[split]).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        faults.append(_fault(NAMES[split], FaultKind.UNREADABLE, error.strerror or str(error)))
        return
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield number, line.decode(errors="surrogateescape").strip()


def _parse_line(text: str) -> tuple[str, int] | str:
    """Numbers last: names may contain spaces."""
    path, _, label = text.replace("\t", " ").rpartition(" ")
    path = path.strip()
    if not path or not _LABEL.fullmatch(label):
        return f"not `path label`: {printable(text[:80])}"
    if not is_safe_name(path):
        return f"not a path below the folder: {printable(path[:80])}"
    if int(label) >= MAX_CLASSES:
        return f"the label {label} is not one of 0 to {MAX_CLASSES - 1}"
    return path, int(label)


def _find_base(root: Path, split: str, paths: list[str]) -> str | None:
    tried = paths[:_NUM_TRIED]
    bases = ("", f"{split}/")
    return next((base for base in bases if not tried or any(os.path.lexists(root / base / at) for at in tried)), None)


def _find_missing(root: Path, paths: Iterable[str]) -> list[DataFault]:
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        by_folder.setdefault(folder, []).append(name)
    faults: list[DataFault] = []
    for folder, names in by_folder.items():
        there, links = _list_folder(root, folder)
        for name in names:
            path = f"{folder}/{name}".lstrip("/")
            fault = judge_link(str(root), path) if there is None or name in links else None
            if fault is not None:
                faults.append(fault)
            elif there is None or name not in there:
                faults.append(_fault(path, FaultKind.MISSING_IMAGE, "missing"))
    return faults


def _list_folder(root: Path, folder: str) -> tuple[set[str] | None, set[str]]:
    """Names of files, and those that are links; None for a folder that cannot be listed or is outside."""
    if (root / folder).is_symlink() and judge_link(str(root), folder) is not None:
        return None, set()
    names: set[str] = set()
    links: set[str] = set()
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                names.add(entry.name)
                if entry.is_symlink():
                    links.add(entry.name)
    except OSError:
        return None, set()
    return names, links


def _fault(path: str, kind: FaultKind, problem: str, *, is_entry: bool = False) -> DataFault:
    return DataFault(path=printable(path), kind=kind, problem=problem, is_entry=is_entry)
