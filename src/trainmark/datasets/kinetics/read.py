"""Reads a folder of clips for training: lists the clips, and loads the wanted frames of one clip.

Wrong lists are refused, with every reason. A listed clip that is missing is not refused, because downloads of Kinetics
are never complete: it is reported when it is loaded, and `trainmark data check kinetics` finds all of them.
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
from trainmark.datasets.report import LINK_REMEDIES, FaultKind, unusable_folder

_REMEDIES = {
    **LINK_REMEDIES,
    FaultKind.EMPTY_LIST: ("empty lists:", "write the lists again"),
    FaultKind.BAD_LINE: ("invalid lines:", "write `path num_frames label` or `video label` on each line"),
    FaultKind.NOT_TEXT: ("lines that are not UTF-8:", "convert the list: iconv -t UTF-8"),
    FaultKind.BAD_LABEL: ("invalid labels:", "correct these lines; labels count from 0"),
    FaultKind.MISSING: ("lists whose clips are missing:", "give the folder that the paths in the list start from"),
    FaultKind.OUTSIDE: (
        "paths that point outside the folder:",
        "write paths relative to the folder, and copy the clips into it",
    ),
    FaultKind.NO_CLASSES: ("no class folders in", "put each class's videos into a folder of its own: train/<class>/"),
    FaultKind.EMPTY_CLASS: (
        "no video in",
        "remove these folders or fill them; folders of frames need a list, train.txt",
    ),
    FaultKind.UNKNOWN_CLASS: ("not a class of train:", "remove these folders from val or add them to train"),
}


def read_clips(root: Path) -> ClipScan:
    """Opens no clip. Raises one DataError that names everything wrong with the layout and the lists."""
    scan = scan_clips(root)
    if scan.faults:
        raise unusable_folder(root, scan.faults, _REMEDIES, format_="kinetics", with_problems=True)
    return scan


class UnusableClipError(Exception):
    """No frame of the clip can be used."""


@dataclass(frozen=True, kw_only=True)
class Frames:
    pixels: list[Pixels]
    """In the requested order, all of one size."""

    problem: str | None
    """What is wrong with the clip, if only a part could be used."""


def frame_name(number: int) -> str:
    """`number` counts from 0, the file names from 1."""
    return f"img_{number + 1:05d}.jpg"


def load_clip(root: Path, clip: Clip, choose: Choose) -> Frames:
    """Loads only the wanted frames; a bad one is replaced by the nearest good one. `root` is resolved."""
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
        raise UnusableClipError("folder not found")
    whole: dict[int, Pixels] = {}
    damaged: dict[int, Pixels] = {}
    problems: list[str] = []
    wanted = choose(num_frames).tolist()
    for number in dict.fromkeys(wanted):  # the same frame of a short clip is wanted more than once
        try:
            pixels, problem = decode_lenient(read_inside(root, folder, frame_name(number)))
        except OSError as error:
            pixels, problem = None, "missing" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        if problem is not None:
            problems.append(f"{frame_name(number)}: {problem}")
        if pixels is not None:
            (whole if problem is None else damaged)[number] = pixels
    good = whole or damaged  # a damaged frame is better than none, but a good one nearby is better
    return _filled([good.get(number) for number in wanted], problems)


def _filled(pictures: Sequence[Pixels | None], problems: list[str]) -> Frames:
    there = {at: pixels for at, pixels in enumerate(pictures) if pixels is not None}
    if not there:
        raise UnusableClipError(problems[0] if problems else "no frame can be read")
    pixels = [_nearest(there, at) for at in range(len(pictures))]
    if len({frame.shape for frame in pixels}) > 1:
        raise UnusableClipError("frames of different sizes")
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return Frames(pixels=pixels, problem=problems[0] + more if problems else None)


def _nearest(there: Mapping[int, Pixels], at: int) -> Pixels:
    return there[min(there, key=lambda other: abs(other - at))]
