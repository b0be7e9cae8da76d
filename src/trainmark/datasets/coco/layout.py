"""Which annotation files of a COCO folder train and which evaluate, and where their images are.

    2017    train2017; val2017
    2014    train2014 and valminusminival2014 joined; minival2014, where both of these files exist
            train2014 and val2014 joined, without an evaluation, where they do not

The second of 2014 is what people train on who have no `minival` files: all of train and val. An evaluation on images
that were trained on would be no evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SPLITS = ("train2017", "val2017")
"""What `trainmark data make coco` writes."""
ANNOTATION_FOLDER = "annotations"


def annotation_file(split: str) -> str:
    """Relative to the data set's folder."""
    return f"{ANNOTATION_FOLDER}/instances_{split}.json"


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    """Of the annotation file."""
    folder: str
    """Of its images."""

    def exists(self, root: Path) -> bool:
        """Images and annotations belong together: one of the two without the other is a fault to be told."""
        return (root / self.folder).exists() or (root / annotation_file(self.name)).exists()


@dataclass(frozen=True, kw_only=True)
class Layout:
    train: tuple[Part, ...]
    val: Part | None

    def __iter__(self) -> Iterator[Part]:
        yield from self.train
        if self.val is not None:
            yield self.val


_TRAIN_2017, _VAL_2017 = (Part(name=name, folder=name) for name in SPLITS)
_TRAIN_2014, _VAL_2014 = (Part(name=name, folder=name) for name in ("train2014", "val2014"))
_REST_2014, _MINIVAL_2014 = (Part(name=f"{name}2014", folder="val2014") for name in ("valminusminival", "minival"))


def find_layout(root: Path) -> Layout | None:
    """2017 where both are there; None if neither is."""
    if _TRAIN_2017.exists(root) or _VAL_2017.exists(root):
        return Layout(train=(_TRAIN_2017,), val=_VAL_2017 if _VAL_2017.exists(root) else None)
    if not _TRAIN_2014.exists(root):
        return None
    if all((root / annotation_file(part.name)).exists() for part in (_REST_2014, _MINIVAL_2014)):
        return Layout(train=(_TRAIN_2014, _REST_2014), val=_MINIVAL_2014)
    return Layout(train=(_TRAIN_2014, _VAL_2014) if _VAL_2014.exists(root) else (_TRAIN_2014,), val=None)
