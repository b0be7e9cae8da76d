"""Parses lists of clips as public tools write them: one clip per line, numbers last, because names may contain spaces.

    path num_frames label       a folder with img_00001.jpg and so on
    path.mp4 label              a video file

Paths are relative. `LISTS`, `LIST_FOLDERS` and `BASES` define where lists and clips are searched.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.inside import is_safe_name
from trainmark.datasets.report import DataFault, FaultKind, printable

VIDEO_SUFFIXES = (".mp4", ".avi", ".mkv", ".webm")
MAX_CLASSES = 10_000  # a larger label is a mistake: no data set of clips has so many

LISTS = (
    "{split}.txt",
    "{split}_list.txt",
    "kinetics_{split}_list.txt",
    "{split}_videofolder.txt",
    "kinetics400_{split}_list_rawframes.txt",
    "kinetics400_{split}_list_videos.txt",
)
LIST_FOLDERS = ("", "labels/")
BASES = ("", "{split}/", "frames/", "images/", "images256/", "rawframes_{split}/", "videos_{split}/")
"""Where the paths of a list may start; the first folder that contains one of the first clips is used."""

CLASS_LISTS = ("classes.txt", "label_map.txt", "kinetics_label_map.txt", "label_map_k400.txt")
_NUM_TRIED = 20
_COUNT = re.compile(r"[0-9]{1,9}")
_LABEL = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    path: str
    """Relative to the data set's folder."""

    label: int
    num_frames: int | None
    """As listed, for a folder of frames; None for a video, whose frames are counted when it is opened."""


@dataclass(frozen=True, kw_only=True)
class ClipList:
    clips: tuple[Clip, ...]
    faults: tuple[DataFault, ...]


def find_list(root: Path, split: str) -> str | None:
    """Relative to the root."""
    names = (folder + name.format(split=split) for folder in LIST_FOLDERS for name in LISTS)
    return next((name for name in names if (root / name).is_file()), None)


def read_class_names(root: Path) -> tuple[str, ...] | None:
    """One name per line, starting with class 0; None if there is no such file."""
    names = (folder + name for folder in LIST_FOLDERS for name in CLASS_LISTS)
    for name in names:
        if (root / name).is_file():
            text = (root / name).read_bytes().decode("utf-8-sig", errors="replace")
            return tuple(line.strip() for line in text.splitlines() if line.strip())
    return None


def read_list(root: Path, name: str, split: str, num_classes: int | None) -> ClipList:
    """Checks every line, but looks up paths only to find the folder that they start from."""
    try:
        data = (root / name).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        fault = DataFault(path=name, kind=FaultKind.UNREADABLE, problem=error.strerror or str(error))
        return ClipList(clips=(), faults=(fault,))
    clips: list[Clip] = []
    faults: list[DataFault] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            found = _parse_line(line, num_classes)
            if isinstance(found, Clip):
                clips.append(found)
            else:
                path = printable(f"{name}:{number}")
                faults.append(DataFault(path=path, kind=found[0], problem=found[1], is_entry=True))
    if not clips and not faults:
        faults.append(DataFault(path=name, kind=FaultKind.EMPTY_LIST, problem="lists no clip"))
    base = _find_base(root, split, clips)
    if clips and base is None:
        tried = min(_NUM_TRIED, len(clips))
        problem = f"none of its first {tried} clips exists, for example {printable(clips[0].path)}"
        faults.append(DataFault(path=name, kind=FaultKind.MISSING, problem=problem))
    return ClipList(clips=_below(base or "", clips), faults=tuple(faults))


def _parse_line(line: bytes, num_classes: int | None) -> Clip | tuple[FaultKind, str]:
    try:
        text = line.decode().strip()
    except UnicodeDecodeError:
        return FaultKind.NOT_TEXT, "not UTF-8"
    fields = text.rsplit(None, 2)
    if len(fields) == 3 and _COUNT.fullmatch(fields[1]):
        path, num_frames, label = fields[0], int(fields[1]), fields[2]
    else:
        path, _, label = text.rpartition(" ") if "\t" not in text else text.rpartition("\t")
        path, num_frames = path.strip(), None
        if not path.lower().endswith(VIDEO_SUFFIXES):
            return FaultKind.BAD_LINE, f"neither `path num_frames label` nor `video label`: {printable(text[:80])}"
    if not is_safe_name(path):
        return FaultKind.OUTSIDE, f"not a path below the folder: {printable(path[:80])}"
    if not _LABEL.fullmatch(label):
        return FaultKind.BAD_LABEL, f"the label {printable(label[:20])} is not an integer"
    limit = MAX_CLASSES if num_classes is None else num_classes
    if not 0 <= int(label) < limit:
        return FaultKind.BAD_LABEL, f"the label {label} is not one of 0 to {limit - 1}"
    return Clip(path=path.rstrip("/"), label=int(label), num_frames=num_frames)


def _find_base(root: Path, split: str, clips: list[Clip]) -> str | None:
    bases = [base.format(split=split) for base in BASES]
    tried = clips[:_NUM_TRIED]
    return next((base for base in bases if any(os.path.lexists(root / base / clip.path) for clip in tried)), None)


def _below(base: str, clips: list[Clip]) -> tuple[Clip, ...]:
    if not base:
        return tuple(clips)
    return tuple(Clip(path=base + clip.path, label=clip.label, num_frames=clip.num_frames) for clip in clips)
