"""Lists an ICDAR 2015 folder (challenge 4): images, and labels in folders beside them. Opens no image.

    ch4_training_images/img_N.jpg     ch4_training_localization_transcription_gt/gt_img_N.txt
    ch4_test_images/img_N.jpg         Challenge4_Test_Task1_GT/gt_img_N.txt

or, simpler, `train/` and `val/` with images and labels in the same folder. A link that points outside the data set is a
fault and is not followed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.inside import is_hidden, judge_link, resolve_folder
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError

SUFFIXES = (".jpg", ".jpeg")

LAYOUTS = (
    (
        ("ch4_training_images", "ch4_training_localization_transcription_gt"),
        ("ch4_test_images", "Challenge4_Test_Task1_GT"),
    ),
    (("train", "train"), ("val", "val")),
)
_OTHER_TEST_LABELS = "ch4_test_localization_transcription_gt"
"""As PSENet's authors call the folder."""


@dataclass(frozen=True, kw_only=True)
class SplitScan:
    name: str
    images: tuple[str, ...]
    """Relative to the root, img_2 before img_10."""

    labels: tuple[str | None, ...]
    """The label file of each image, or None."""

    num_ignored: int
    faults: tuple[DataFault, ...]


@dataclass(frozen=True, kw_only=True)
class FolderScan:
    root: Path
    """Without links."""

    train: SplitScan
    val: SplitScan | None

    @property
    def splits(self) -> tuple[SplitScan, ...]:
        return (self.train,) if self.val is None else (self.train, self.val)

    @property
    def faults(self) -> tuple[DataFault, ...]:
        return tuple(fault for split in self.splits for fault in split.faults)


def scan_folder(root: Path) -> FolderScan:
    """Collects faults inside the folder. Raises DataError if it is not such a data set at all."""
    resolved = resolve_folder(root, holding=LAYOUTS[0][0][0])
    layout = next((layout for layout in LAYOUTS if (resolved / layout[0][0]).is_dir()), None)
    if layout is None:
        raise DataError(
            f"{root} is not in the layout of ICDAR 2015",
            why=f"no folder {LAYOUTS[0][0][0]} (or {LAYOUTS[1][0][0]}) with img_N.jpg files",
            hint="give the folder that contains it; `trainmark data make icdar2015 DIR` makes one to try with",
        )
    (train_images, train_labels), (val_images, val_labels) = layout
    train = _scan_split(resolved, "train", train_images, train_labels)
    if (resolved / _OTHER_TEST_LABELS).is_dir() and not os.path.lexists(resolved / val_labels):
        val_labels = _OTHER_TEST_LABELS
    has_val = os.path.lexists(resolved / val_images)
    val = _scan_split(resolved, "val", val_images, val_labels) if has_val else None
    return FolderScan(root=resolved, train=train, val=val)


def _scan_split(root: Path, name: str, image_folder: str, label_folder: str) -> SplitScan:
    images, others, faults = _list_files(root, image_folder, SUFFIXES)
    labels, strangers, label_faults = _list_files(root, label_folder, (".txt",))
    if label_folder == image_folder:
        others, strangers = [file for file in others if file not in labels], []
        label_faults = []
    faults += label_faults
    images.sort(key=lambda file: (len(file), file))
    known = set(labels)
    paired = [_label_of(file) if _label_of(file) in known else None for file in images]
    if not images and not faults:
        faults.append(_fault(image_folder, FaultKind.NO_IMAGES, "contains no .jpg file"))
    for file, label in zip(images, paired, strict=True):
        if label is None:
            what = f"no label file {label_folder}/{_label_of(file)}"
            faults.append(_fault(f"{image_folder}/{file}", FaultKind.MISSING_LABEL, what))
    for file in sorted(known - set(paired)):
        what = f"no image for it in {image_folder}"
        faults.append(_fault(f"{label_folder}/{file}", FaultKind.MISSING_IMAGE, what, usable=True))
    return SplitScan(
        name=name,
        images=tuple(f"{image_folder}/{file}" for file in images),
        labels=tuple(None if label is None else f"{label_folder}/{label}" for label in paired),
        num_ignored=len(others) + len(strangers),
        faults=tuple(faults),
    )


def _label_of(image: str) -> str:
    return f"gt_{image.rsplit('.', 1)[0]}.txt"


def _list_files(root: Path, folder: str, suffixes: Sequence[str]) -> tuple[list[str], list[str], list[DataFault]]:
    """Files of these types, other and hidden files, and faults."""
    names: list[str] = []
    others: list[str] = []
    faults: list[DataFault] = []
    if (link_fault := _judge_link(root, folder)) is not None:
        return names, others, [link_fault]
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if is_hidden(entry.name) or not entry.name.lower().endswith(tuple(suffixes)):
                    others.append(entry.name)
                elif (link_fault := _judge_link(root, f"{folder}/{entry.name}")) is not None:
                    faults.append(link_fault)
                elif entry.is_file():
                    names.append(entry.name)
    except OSError as error:
        faults.append(_fault(folder, FaultKind.UNREADABLE, error.strerror or str(error)))
    return names, others, faults


def _judge_link(root: Path, path: str) -> DataFault | None:
    return judge_link(str(root), path) if (root / path).is_symlink() else None


def _fault(path: str, kind: FaultKind, problem: str, *, usable: bool = False) -> DataFault:
    return DataFault(path=printable(path), kind=kind, problem=printable(problem), usable=usable)
