"""A folder of clips to train on: refused as a whole where its lists are wrong, with every reason named.

A clip that is listed and not there is no such reason: downloads of Kinetics are never complete. It is met, named and
counted when its turn comes, and `trainmark data check kinetics` finds all of them beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.inside import read_inside, real_path
from trainmark.datasets.jpeg import Pixels, decode_lenient
from trainmark.datasets.kinetics.lists import Clip
from trainmark.datasets.kinetics.scan import ClipScan, scan_clips
from trainmark.datasets.kinetics.video import Choose, read_video
from trainmark.datasets.report import DataFault, FaultKind
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


class UnusableClipError(Exception):
    """Nothing of the clip can be shown."""


@dataclass(frozen=True, kw_only=True)
class Frames:
    pixels: list[Pixels]
    """In the order asked for, all of one size."""

    problem: str | None
    """What is wrong with the clip, if only a part of it could be used."""


def frame_name(number: int) -> str:
    """Counted from 0 here and from 1 on disk."""
    return f"img_{number + 1:05d}.jpg"


def load_clip(root: Path, clip: Clip, choose: Choose) -> Frames:
    """`root` is resolved. Memory and time are those of the wanted frames."""
    try:
        place = real_path(str(root), clip.path)
    except OSError as error:
        raise UnusableClipError(error.strerror) from error
    if clip.num_frames is not None:
        return _load_folder(str(root), place, clip.num_frames, choose)
    try:
        pictures, problem = read_video(place, choose)
    except ValueError as error:
        raise UnusableClipError(str(error)) from error
    return _filled(pictures, [] if problem is None else [problem])


def _load_folder(root: str, folder: str, num_frames: int, choose: Choose) -> Frames:
    if num_frames == 0:
        raise UnusableClipError("listed with no frames")
    if not Path(folder).is_dir():
        raise UnusableClipError("the folder is not there")
    whole: dict[int, Pixels] = {}
    damaged: dict[int, Pixels] = {}
    problems: list[str] = []
    wanted = choose(num_frames).tolist()
    for number in dict.fromkeys(wanted):  # a short clip is asked for the same frame more than once
        try:
            pixels, problem = decode_lenient(read_inside(root, folder, frame_name(number)))
        except OSError as error:
            pixels, problem = None, "missing" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        if problem is not None:
            problems.append(f"{frame_name(number)}: {problem}")
        if pixels is not None:
            (whole if problem is None else damaged)[number] = pixels
    good = whole or damaged  # half a picture is better than none, but a whole one from nearby is better than half
    return _filled([good.get(number) for number in wanted], problems)


def _filled(pictures: Sequence[Pixels | None], problems: list[str]) -> Frames:
    there = {at: pixels for at, pixels in enumerate(pictures) if pixels is not None}
    if not there:
        raise UnusableClipError(problems[0] if problems else "no frame can be read")
    pixels = [_nearest(there, at) for at in range(len(pictures))]
    if len({frame.shape for frame in pixels}) > 1:
        raise UnusableClipError("its frames differ in size")
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return Frames(pixels=pixels, problem=problems[0] + more if problems else None)


def _nearest(there: Mapping[int, Pixels], at: int) -> Pixels:
    return there[min(there, key=lambda other: abs(other - at))]
