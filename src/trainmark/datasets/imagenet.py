"""ImageNet's layout: `DIR/train/<class>/*.JPEG` and, if there is one, `DIR/val/<class>/*.JPEG`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.datasets.check import CheckReport, SplitCount, check_folder
from trainmark.datasets.faults import DataFault, FaultKind
from trainmark.datasets.folder import SplitScan, scan_folder
from trainmark.datasets.formats import DatasetFormat, MakeReport, MakeRequest
from trainmark.datasets.textures import make_imagenet
from trainmark.errors import DataError

__all__ = ["FORMAT", "CheckReport", "ImageFolder", "Split", "SplitCount", "check_folder", "read_folder"]

_DEFAULT_NUM_IMAGES = 1250  # a thousand to train on and 250 to validate with; 125 MB

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


def _make(root: Path, request: MakeRequest) -> MakeReport:
    return make_imagenet(
        root,
        num_images=_DEFAULT_NUM_IMAGES if request.num_images is None else request.num_images,
        num_classes=10 if request.num_classes is None else request.num_classes,
        val_fraction=0.2 if request.val_fraction is None else request.val_fraction,
        seed=request.seed or 0,
        num_workers=request.num_workers,
    )


def _check(root: Path, decode: bool, num_workers: int | None) -> CheckReport:
    return check_folder(root, decode=decode, num_workers=num_workers)


FORMAT = DatasetFormat(
    name="imagenet",
    summary="class folders of JPEG files, train/<class> and val/<class>; makes textured shapes in any number",
    options=frozenset({"num_images", "num_classes", "val_fraction", "seed", "num_workers"}),
    make=_make,
    check=_check,
)
