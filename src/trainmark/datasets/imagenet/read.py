"""ImageNet's layout: `DIR/train/<class>/*.JPEG` and, if there is one, `DIR/val/<class>/*.JPEG`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.datasets.imagenet.scan import SplitScan, scan_folder
from trainmark.datasets.report import DataFault, FaultKind
from trainmark.errors import DataError

# One sentence and one next action for each kind of fault that stops a folder from being read.
_SENTENCES = {
    FaultKind.NO_CLASSES: ("no class folders in", "put each class's images into a folder of its own: train/<class>/"),
    FaultKind.EMPTY_CLASS: ("no .jpg or .jpeg file in", "remove these folders or fill them"),
    FaultKind.UNKNOWN_CLASS: ("not a class of train:", "remove these folders from val or add them to train"),
    FaultKind.OUTSIDE: ("links that lead outside the folder:", "give the real folder, or copy the files into it"),
    FaultKind.DANGLING: ("links to nothing:", "remove these links or restore what they point to"),
    FaultKind.UNREADABLE: ("cannot be read:", "ask the owner for read and search permission: chmod -R a+rX"),
}
_MAX_FILES_NAMED = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    paths: tuple[str, ...]
    """Relative to the root, in torchvision's order: by class, then by name."""

    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageFolder:
    root: Path
    """Resolved: no link is left in it."""

    classes: tuple[str, ...]
    """Sorted by name; a label is an index into these, in both splits."""

    train: Split
    val: Split | None


def read_folder(root: Path) -> ImageFolder:
    """Lists the images and opens none. Anything wrong with the layout is one DataError that names all of it."""
    scan = scan_folder(root)
    if scan.faults:
        raise _as_data_error(root, scan.faults)
    classes = tuple(scan.train.files)
    label_of = {class_: label for label, class_ in enumerate(classes)}
    return ImageFolder(
        root=scan.root,
        classes=classes,
        train=_as_split(scan.train, label_of),
        val=None if scan.val is None else _as_split(scan.val, label_of),
    )


def _as_split(scan: SplitScan, label_of: dict[str, int]) -> Split:
    counts = [len(files) for files in scan.files.values()]
    labels = np.repeat(np.array([label_of[class_] for class_ in scan.files], dtype=np.int64), counts)
    labels.setflags(write=False)
    return Split(paths=tuple(scan.paths()), labels=labels)


def _as_data_error(root: Path, faults: Sequence[DataFault]) -> DataError:
    kinds = list(dict.fromkeys(fault.kind for fault in faults))
    whys = [f"{_SENTENCES[kind][0]} {_named([f for f in faults if f.kind is kind])}" for kind in kinds]
    return DataError(
        f"{root} cannot be used as it is",
        why="; ".join(whys),
        hint="; ".join(_SENTENCES[kind][1] for kind in kinds) + f". `trainmark data check imagenet {root}` lists all",
    )


def _named(faults: Sequence[DataFault]) -> str:
    """Classes are all named; of files there may be a million."""
    is_class = faults[0].kind in (FaultKind.EMPTY_CLASS, FaultKind.UNKNOWN_CLASS)
    shown = faults if is_class else faults[:_MAX_FILES_NAMED]
    names = ", ".join(fault.path for fault in shown)
    return names + (f" and {len(faults) - len(shown)} more" if len(shown) < len(faults) else "")
