"""The wanted frames of one clip as pixels, from a folder of JPEG files or from a video.

One bad frame does not cost the clip: the nearest good one of the wanted frames takes its place, and it is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.inside import read_inside, real_path
from trainmark.datasets.jpeg import Pixels, decode_lenient
from trainmark.datasets.kinetics.lists import Clip
from trainmark.datasets.kinetics.video import Choose, read_video


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
