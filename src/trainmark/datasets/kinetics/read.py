"""A folder of clips to train on: refused as a whole where its lists are wrong, with every reason named.

A clip that is listed and not there is no such reason: downloads of Kinetics are never complete. It is met, named and
counted when its turn comes, and `trainmark data check kinetics` finds all of them beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainmark.datasets.faults import DataFault, FaultKind
from trainmark.datasets.kinetics.scan import ClipScan, scan_clips
from trainmark.errors import DataError

# One sentence and one next action for each kind of fault that stops a folder from being read.
_SENTENCES = {
    FaultKind.EMPTY_LIST: ("lists of nothing:", "write the lists anew"),
    FaultKind.BAD_LINE: ("lines that say no clip:", "write `path num_frames label` or `video label` on each line"),
    FaultKind.NOT_TEXT: ("lines that are not UTF-8:", "convert the list: iconv -t UTF-8"),
    FaultKind.BAD_LABEL: ("labels that are none:", "labels count from 0; correct these lines"),
    FaultKind.MISSING: ("lists whose clips are not there:", "give the folder that the paths in the list begin in"),
    FaultKind.OUTSIDE: (
        "paths that lead outside the folder:",
        "write paths relative to the folder, and copy the clips into it",
    ),
    FaultKind.NO_CLASSES: ("no class folders in", "put each class's videos into a folder of its own: train/<class>/"),
    FaultKind.EMPTY_CLASS: (
        "no video in",
        "remove these folders or fill them; folders of frames need a list, train.txt",
    ),
    FaultKind.UNKNOWN_CLASS: ("not a class of train:", "remove these folders from val or add them to train"),
    FaultKind.DANGLING: ("links to nothing:", "remove these links or restore what they point to"),
    FaultKind.UNREADABLE: ("cannot be read:", "ask the owner for read and search permission: chmod -R a+rX"),
}
_MAX_NAMED = 10


def read_clips(root: Path) -> ClipScan:
    """Opens no clip. Anything wrong with the layout or with a list is one DataError that names all of it."""
    scan = scan_clips(root)
    if scan.faults:
        raise _as_data_error(root, scan.faults)
    return scan


def _as_data_error(root: Path, faults: Sequence[DataFault]) -> DataError:
    kinds = list(dict.fromkeys(fault.kind for fault in faults))
    whys = [f"{_SENTENCES[kind][0]} {_named([f for f in faults if f.kind is kind])}" for kind in kinds]
    return DataError(
        f"{root} cannot be used as it is",
        why="; ".join(whys),
        hint="; ".join(_SENTENCES[kind][1] for kind in kinds) + f". `trainmark data check kinetics {root}` lists all",
    )


def _named(faults: Sequence[DataFault]) -> str:
    names = ", ".join(f"{fault.path} ({fault.problem})" for fault in faults[:_MAX_NAMED])
    return names + (f" and {len(faults) - _MAX_NAMED} more" if len(faults) > _MAX_NAMED else "")
