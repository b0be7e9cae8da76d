"""Reads ImageNet's layout for training: `DIR/train/<class>/*.JPEG` and optionally `DIR/val/<class>/*.JPEG`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.datasets.imagenet.scan import SplitScan, scan_folder
from trainmark.datasets.report import LINK_REMEDIES, FaultKind, unusable_folder

_REMEDIES = {
    **LINK_REMEDIES,
    FaultKind.NO_CLASSES: ("no class folders in", "put each class's images into a folder of its own: train/<class>/"),
    FaultKind.EMPTY_CLASS: ("no .jpg or .jpeg file in", "remove these folders or fill them"),
    FaultKind.UNKNOWN_CLASS: ("not a class of train:", "remove these folders from val or add them to train"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    paths: tuple[str, ...]
    """Relative to the root, in torchvision's order: by class, then by name."""

    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageFolder:
    root: Path
    """Without links."""

    classes: tuple[str, ...]
    """Sorted by name; a label is an index into these, in both splits."""

    train: Split
    val: Split | None


def read_folder(root: Path) -> ImageFolder:
    """Lists the images without opening them. Raises one DataError that names everything wrong with the layout."""
    scan = scan_folder(root)
    if scan.faults:
        raise unusable_folder(root, scan.faults, _REMEDIES, format_="imagenet")
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
