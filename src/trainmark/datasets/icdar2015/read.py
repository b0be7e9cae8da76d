"""Reads ICDAR 2015 for training: lists the images, and loads one image with its words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.icdar2015.scan import FolderScan, SplitScan, scan_folder
from trainmark.datasets.icdar2015.words import Word, fit_words, parse_words
from trainmark.datasets.inside import read_inside, real_path
from trainmark.datasets.jpeg import decode_lenient
from trainmark.datasets.report import LINK_REMEDIES, DataFault, FaultKind, printable, unusable_folder

# A single image without a label does not stop a run: it is reported when it is loaded. These faults do.
_REMEDIES = {
    **LINK_REMEDIES,
    FaultKind.NO_IMAGES: ("no .jpg file in", "put the images there, as img_1.jpg and so on"),
    FaultKind.MISSING_LABEL: (
        "no image has a label file gt_<image>.txt in",
        "put the label files where the layout expects them",
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledImage:
    pixels: NDArray[np.uint8]
    """Height x width x 3, RGB."""

    words: tuple[Word, ...]
    problems: tuple[tuple[str, str], ...]
    """(path, problem) of what could be used only in part."""


class UnusableImageError(Exception):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem


def read_folder(root: Path) -> FolderScan:
    """Lists the images without opening them. Raises one DataError that names everything wrong with the layout."""
    scan = scan_folder(root)
    faults = [fault for fault in scan.faults if fault.kind in _REMEDIES and fault.kind is not FaultKind.MISSING_LABEL]
    faults += [
        DataFault(path=split.name, kind=FaultKind.MISSING_LABEL, problem="no labels")
        for split in scan.splits
        if split.images and not any(split.labels)
    ]
    if faults:
        raise unusable_folder(root, faults, _REMEDIES, format_="icdar2015")
    return scan


def read_image(root: Path, split: SplitScan, index: int) -> LabelledImage:
    """A damaged image gives what can be decoded. Raises UnusableImageError if that is nothing, or without labels."""
    path, label = split.images[index], split.labels[index]
    if label is None:
        raise UnusableImageError(printable(path), "no label file")
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
