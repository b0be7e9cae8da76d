"""Reads a COCO folder of 2017 or 2014 for training: images and annotations/instances_*.json. Opens no image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.coco.scan import MAX_MISSING_SHARE, scan_coco
from trainmark.datasets.coco.tables import CocoSplit, join
from trainmark.datasets.report import DataFault, FaultKind
from trainmark.errors import DataError

_TOLERATED = frozenset({FaultKind.MISSING_IMAGE, FaultKind.DANGLING})
_MAX_NAMED = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class CocoFolder:
    root: Path
    """Without links."""
    categories: Mapping[int, str]
    train: CocoSplit
    val: CocoSplit | None


def read_coco(root: Path) -> CocoFolder:
    """Raises one DataError that names everything that stops a run.

    A run skips bad annotations and a few missing images, and reports each one when it is loaded.
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
            hint=f"fix these, or download the files again; `trainmark data check coco {root}` lists everything",
        )
    num_train = len(scan.layout.train)
    train, val = join(scan.splits[:num_train]), scan.splits[num_train:]
    return CocoFolder(root=scan.root, categories=train.categories, train=train, val=val[0] if val else None)


def _named(faults: Sequence[DataFault]) -> str:
    shown = "; ".join(f"{fault.path}: {fault.problem}" for fault in faults[:_MAX_NAMED])
    return shown + (f"; and {len(faults) - _MAX_NAMED} more" if len(faults) > _MAX_NAMED else "")
