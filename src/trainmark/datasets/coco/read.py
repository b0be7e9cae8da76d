"""COCO's layout: train2017/, val2017/ and annotations/instances_{train,val}2017.json, read without opening an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.coco.files import MAX_MISSING_SHARE, find_files
from trainmark.datasets.coco.layout import SPLITS, annotation_file
from trainmark.datasets.coco.parse import parse_split
from trainmark.datasets.coco.tables import CocoSplit
from trainmark.datasets.faults import DataFault, FaultKind
from trainmark.errors import DataError

_TOLERATED = frozenset({FaultKind.MISSING_IMAGE, FaultKind.DANGLING})
_MAX_NAMED = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class CocoFolder:
    root: Path
    """Resolved: no link is left in it."""
    categories: Mapping[int, str]
    train: CocoSplit
    val: CocoSplit | None


@dataclass(frozen=True, kw_only=True)
class CocoScan:
    """Everything that was found, good and bad."""

    root: Path
    splits: tuple[CocoSplit, ...]
    faults: tuple[DataFault, ...]
    num_ignored: int


def scan_coco(root: Path) -> CocoScan:
    resolved = _resolve(root)
    names = [name for name in SPLITS if name == SPLITS[0] or _has_split(resolved, name)]
    splits: list[CocoSplit] = []
    faults: list[DataFault] = []
    num_ignored = 0
    for name in names:
        split, found = parse_split(resolved, name)
        faults += found
        if split is not None:
            file_faults, ignored = find_files(resolved, split)
            faults += file_faults
            num_ignored += ignored
            splits.append(split)
    if len(splits) == 2 and splits[0].categories != splits[1].categories:
        problem = f"has other categories than {annotation_file(SPLITS[0])}"
        faults.append(DataFault(path=annotation_file(SPLITS[1]), kind=FaultKind.OTHER_CATEGORIES, problem=problem))
    return CocoScan(root=resolved, splits=tuple(splits), faults=tuple(faults), num_ignored=num_ignored)


def read_coco(root: Path) -> CocoFolder:
    """Anything that a run cannot go on with is one DataError that names all of it.

    A run goes on without annotations that cannot be used, and without a few missing images; it names them when it
    meets them.
    """
    scan = scan_coco(root)
    blocking = [fault for fault in scan.faults if not fault.usable and fault.kind not in _TOLERATED]
    num_missing = sum(fault.kind in _TOLERATED for fault in scan.faults)
    num_images = sum(len(split.images) for split in scan.splits)
    if num_missing > MAX_MISSING_SHARE * num_images:
        missing = [fault for fault in scan.faults if fault.kind in _TOLERATED]
        blocking += missing
    if blocking:
        raise DataError(
            f"{root} cannot be used as it is",
            why=_named(blocking),
            hint=f"mend these, or take the files from COCO again; `trainmark data check coco {root}` lists all",
        )
    by_name = {split.name: split for split in scan.splits}
    train = by_name[SPLITS[0]]
    return CocoFolder(root=scan.root, categories=train.categories, train=train, val=by_name.get(SPLITS[1]))


def _named(faults: Sequence[DataFault]) -> str:
    shown = "; ".join(f"{fault.path} {fault.problem}" for fault in faults[:_MAX_NAMED])
    return shown + (f"; and {len(faults) - _MAX_NAMED} more" if len(faults) > _MAX_NAMED else "")


def _has_split(root: Path, name: str) -> bool:
    """A validation part may be absent, but not half of it."""
    return (root / name).exists() or (root / annotation_file(name)).exists()


def _resolve(root: Path) -> Path:
    try:
        resolved = root.resolve(strict=True)
        is_layout = resolved.is_dir() and any(_has_split(resolved, name) for name in SPLITS)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{root} cannot be read",
            why=getattr(error, "strerror", None) or str(error),
            hint="check the spelling, that the disk is mounted, and that you may read it",
        ) from error
    if not is_layout:
        raise DataError(
            f"{root} is not in COCO's layout",
            why="it holds neither train2017 nor annotations/instances_train2017.json",
            hint="give the folder that contains annotations, train2017 and val2017; "
            "`trainmark data make coco DIR` makes one to try with",
        )
    return resolved
