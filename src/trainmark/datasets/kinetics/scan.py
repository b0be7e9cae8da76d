"""Lists a folder of clips in either layout. Opens no clip.

lists      DIR/train.txt and DIR/val.txt, see `lists`
folders    DIR/train/<class>/*.mp4 and DIR/val/<class>/*.mp4, where there are no lists
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.imagenet.scan import FolderScan, scan_folder
from trainmark.datasets.inside import resolve_folder
from trainmark.datasets.kinetics.lists import (
    LISTS,
    VIDEO_SUFFIXES,
    Clip,
    find_list,
    read_class_names,
    read_list,
)
from trainmark.datasets.report import DataFault
from trainmark.errors import DataError


@dataclass(frozen=True, kw_only=True)
class ClipScan:
    root: Path
    """Without links."""

    classes: tuple[str, ...]
    """A label is an index into these; numbers if no file names them."""

    train: tuple[Clip, ...]
    val: tuple[Clip, ...] | None
    num_ignored: int
    faults: tuple[DataFault, ...]
    """Faults of the layout and of the lists."""

    @property
    def splits(self) -> dict[str, tuple[Clip, ...]]:
        return {"train": self.train} if self.val is None else {"train": self.train, "val": self.val}


def scan_clips(root: Path) -> ClipScan:
    """Collects faults. Raises DataError if the folder has neither layout."""
    resolved = resolve_folder(root, holding="train and val")
    train_list = find_list(resolved, "train")
    if train_list is not None:
        return _scan_lists(resolved, train_list, find_list(resolved, "val"))
    if (resolved / "train").is_dir():
        return _from_class_folders(scan_folder(root, suffixes=VIDEO_SUFFIXES))
    raise DataError(
        f"no clips found in {root}",
        why="neither a list of clips nor a train folder with videos in class folders",
        hint=f"known names of lists: {', '.join(name.format(split='train') for name in LISTS)}; "
        "`trainmark data make kinetics DIR` makes a folder to try with",
    )


def _scan_lists(root: Path, train_list: str, val_list: str | None) -> ClipScan:
    names = read_class_names(root)
    train = read_list(root, train_list, "train", None if names is None else len(names))
    if names is None:
        names = tuple(str(label) for label in range(1 + max((clip.label for clip in train.clips), default=0)))
    val = None if val_list is None else read_list(root, val_list, "val", len(names))
    return ClipScan(
        root=root,
        classes=names,
        train=train.clips,
        val=None if val is None else val.clips,
        num_ignored=0,
        faults=train.faults + (() if val is None else val.faults),
    )


def _from_class_folders(scan: FolderScan) -> ClipScan:
    classes = tuple(scan.train.files)
    label_of = {class_: label for label, class_ in enumerate(classes)}
    splits = {
        split.name: tuple(
            Clip(path=f"{split.name}/{class_}/{file}", label=label_of[class_], num_frames=None)
            for class_, files in split.files.items()
            if class_ in label_of
            for file in files
        )
        for split in scan.splits
    }
    return ClipScan(
        root=scan.root,
        classes=classes,
        train=splits["train"],
        val=splits.get("val"),
        num_ignored=sum(split.num_ignored for split in scan.splits),
        faults=scan.faults,
    )
