"""Reads ImageNet for training: class folders, `DIR/train/<class>/*.JPEG` and the same in val, or list files.

Without `train_list.txt` it is class folders.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.datasets.imagenet.lists import MAX_MISSING_SHARE, has_lists, scan_lists
from trainmark.datasets.imagenet.scan import SplitScan, scan_folder
from trainmark.datasets.report import LINK_REMEDIES, FaultKind, unusable_folder

_REMEDIES = {
    **LINK_REMEDIES,
    FaultKind.NO_CLASSES: ("no class folders in", "put each class's images into a folder of its own: train/<class>/"),
    FaultKind.EMPTY_CLASS: ("no .jpg or .jpeg file in", "remove these folders or fill them"),
    FaultKind.UNKNOWN_CLASS: ("not a class of train:", "remove these folders from val or add them to train"),
    FaultKind.EMPTY_LIST: ("empty lists:", "write the lists again"),
    FaultKind.BAD_LINE: ("invalid lines:", "write `path label` on each line; labels count from 0"),
    FaultKind.MISSING: ("lists whose images are missing:", "give the folder that the paths in the list start from"),
    FaultKind.MISSING_IMAGE: ("more than one listed image in a hundred is missing:", "copy the data set again"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    paths: tuple[str, ...]
    """Relative to the root, in torchvision's order: by class, then by name; those of a list in its order."""

    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageFolder:
    root: Path
    """Without links."""

    classes: tuple[str, ...]
    """Sorted by name; a label is an index into these, in both splits. Lists have numbers instead of names."""

    train: Split
    val: Split | None


def read_folder(root: Path) -> ImageFolder:
    """Lists the images without opening them. Raises one DataError that names everything wrong with the layout."""
    if has_lists(root):
        return _read_lists(root)
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


def _read_lists(root: Path) -> ImageFolder:
    scan = scan_lists(root)
    missing = [fault for fault in scan.faults if fault.kind is FaultKind.MISSING_IMAGE]
    is_incomplete = len(missing) > MAX_MISSING_SHARE * sum(len(split.paths) for split in scan.splits)
    faults = [fault for fault in scan.faults if is_incomplete or fault.kind is not FaultKind.MISSING_IMAGE]
    if faults:
        raise unusable_folder(root, faults, _REMEDIES, format_="imagenet", with_problems=True)
    splits = [Split(paths=split.paths, labels=split.labels) for split in scan.splits]
    return ImageFolder(
        root=scan.root,
        classes=tuple(str(label) for label in range(scan.num_classes)),
        train=splits[0],
        val=splits[1] if len(splits) > 1 else None,
    )


def _as_split(scan: SplitScan, label_of: dict[str, int]) -> Split:
    counts = [len(files) for files in scan.files.values()]
    labels = np.repeat(np.array([label_of[class_] for class_ in scan.files], dtype=np.int64), counts)
    labels.setflags(write=False)
    return Split(paths=tuple(scan.paths()), labels=labels)
