"""ICDAR 2015 for a training run: which images there are, and one image with its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.icdar2015.scan import FolderScan, SplitScan, scan_folder
from trainmark.datasets.icdar2015.words import Word, fit_words, parse_words
from trainmark.datasets.inside import read_inside, real_path
from trainmark.datasets.jpeg import decode_lenient
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError

# A single image without a label is met when its turn comes and does not end the run; these stop it from starting.
_SENTENCES = {
    FaultKind.NO_IMAGES: ("no .jpg file in", "put the images there, as img_1.jpg and so on"),
    FaultKind.OUTSIDE: ("links that lead outside the folder:", "give the real folder, or copy the files into it"),
    FaultKind.DANGLING: ("links to nothing:", "remove these links or restore what they point to"),
    FaultKind.UNREADABLE: ("cannot be read:", "restore these folders, and permission to read them: chmod -R a+rX"),
}
_MAX_NAMED = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledImage:
    pixels: NDArray[np.uint8]
    """Height x width x 3, RGB."""

    words: tuple[Word, ...]
    problems: tuple[tuple[str, str], ...]
    """(path, what is wrong) of what could be used in part."""


class UnusableImageError(Exception):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem


def read_folder(root: Path) -> FolderScan:
    """Lists the images and opens none. What makes the layout unusable is one DataError that names all of it."""
    scan = scan_folder(root)
    faults = [fault for fault in scan.faults if fault.kind in _SENTENCES]
    unlabelled = [split for split in scan.splits if split.images and not any(split.labels)]
    if faults or unlabelled:
        raise _as_data_error(root, faults, unlabelled)
    return scan


def read_image(root: Path, split: SplitScan, index: int) -> LabelledImage:
    """A damaged image gives what pixels are there; one with none, or with no label file, is an UnusableImageError."""
    path, label = split.images[index], split.labels[index]
    if label is None:
        raise UnusableImageError(printable(path), "no label file: the words in it are not known")
    try:
        pixels, damage = decode_lenient(_read(root, path))
    except OSError as error:
        raise UnusableImageError(printable(path), error.strerror or str(error)) from error
    if pixels is None:
        raise UnusableImageError(printable(path), damage or "not an image")
    try:
        words, parse_problems = parse_words(_read(root, label))
    except OSError as error:
        raise UnusableImageError(printable(label), error.strerror or str(error)) from error
    words, fit_problems = fit_words(words, height=pixels.shape[0], width=pixels.shape[1])
    problems = [(printable(label), problem.what) for problem in (*parse_problems, *fit_problems)]
    if damage is not None:
        problems.insert(0, (printable(path), damage))
    return LabelledImage(pixels=pixels, words=tuple(words), problems=tuple(problems))


def _read(root: Path, path: str) -> bytes:
    folder, _, name = path.rpartition("/")
    return read_inside(str(root), real_path(str(root), folder), name)


def _as_data_error(root: Path, faults: Sequence[DataFault], unlabelled: Sequence[SplitScan]) -> DataError:
    kinds = list(dict.fromkeys(fault.kind for fault in faults))
    whys = [f"{_SENTENCES[kind][0]} {_named([f for f in faults if f.kind is kind])}" for kind in kinds]
    hints = [_SENTENCES[kind][1] for kind in kinds]
    if unlabelled:
        whys.append(f"no image of {' and '.join(split.name for split in unlabelled)} has a label file gt_<image>.txt")
        hints.append("put the label files where the layout wants them")
    return DataError(
        f"{root} cannot be used as it is",
        why="; ".join(whys),
        hint="; ".join(hints) + f". `trainmark data check icdar2015 {root}` lists all",
    )


def _named(faults: Sequence[DataFault]) -> str:
    names = ", ".join(fault.path for fault in faults[:_MAX_NAMED])
    return names + (f" and {len(faults) - _MAX_NAMED} more" if len(faults) > _MAX_NAMED else "")
