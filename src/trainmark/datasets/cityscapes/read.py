"""Reads Cityscapes for training: lists the pairs of image and labels, and loads one pair at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from trainmark.datasets.cityscapes.labels import TRAIN_IDS, unknown_ids
from trainmark.datasets.cityscapes.scan import scan_folder
from trainmark.datasets.inside import why_too_large
from trainmark.datasets.png import HEADER_BYTES, Pixels, PngError, decode_numbers, decode_rgb, read_header
from trainmark.datasets.report import LINK_REMEDIES, DataFault, FaultKind, printable, unusable_folder

Found = TypeVar("Found")

_REMEDIES = {
    **LINK_REMEDIES,
    FaultKind.NO_CITIES: (
        "no city folders in",
        "put the files of each city into a folder of its own",
    ),
    FaultKind.EMPTY_CITY: ("no image or no label in", "unpack these folders again, or remove them"),
    FaultKind.MISSING_LABEL: ("images without a label:", "unpack gtFine again, or remove these images"),
    FaultKind.MISSING_IMAGE: ("labels without an image:", "unpack leftImg8bit again, or remove these labels"),
}


@dataclass(frozen=True, kw_only=True)
class Cityscapes:
    root: Path
    """Without links."""

    train: tuple[tuple[str, str], ...]
    """(image, label), both relative to the root."""

    val: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedPair:
    image: Pixels
    """Height x width x 3."""

    labels: Pixels
    """Train ids, height x width; `labels.IGNORED` for pixels that are not trained."""

    faults: tuple[DataFault, ...]
    """Problems that were corrected."""


class UnusablePairError(Exception):
    def __init__(self, fault: DataFault) -> None:
        super().__init__(f"{fault.path}: {fault.problem}")
        self.fault = fault


def read_cityscapes(root: Path) -> Cityscapes:
    """Lists the pairs without opening them. Raises one DataError that names everything wrong with the layout."""
    scan = scan_folder(root)
    if scan.faults:
        raise unusable_folder(root, scan.faults, _REMEDIES, format_="cityscapes")
    pairs = {split.name: split.pairs for split in scan.splits}
    return Cityscapes(root=scan.root, train=pairs["train"], val=pairs.get("val", ()))


def load_pair(root: Path, image_path: str, label_path: str, *, num_rows: int | None = None) -> LoadedPair:
    """`num_rows`: only the first rows, which takes the less time the fewer they are."""
    image, image_fault = load_image(root, image_path, num_rows)
    ids, label_fault = load_ids(root, label_path, num_rows)
    if mismatch := find_mismatch(label_path, read_size(root, image_path), read_size(root, label_path)):
        raise UnusablePairError(mismatch)
    faults = tuple(fault for fault in (image_fault, label_fault) if fault is not None)
    return LoadedPair(image=image[:num_rows], labels=np.take(TRAIN_IDS, ids[:num_rows], mode="clip"), faults=faults)


def read_size(root: Path, path: str) -> tuple[int, int]:
    """Height and width, of the header."""
    header = _read_file(root, path, read_header, HEADER_BYTES)
    return header.height, header.width


def load_image(root: Path, path: str, num_rows: int | None = None) -> tuple[Pixels, DataFault | None]:
    pixels, problem = _read_file(root, path, partial(decode_rgb, num_rows=num_rows))
    return pixels, _usable(path, FaultKind.MODE, problem)


def load_ids(root: Path, path: str, num_rows: int | None = None) -> tuple[Pixels, DataFault | None]:
    """Label ids as in the file; unknown ids are a fault and are ignored."""
    ids, problem = _read_file(root, path, partial(decode_numbers, num_rows=num_rows))
    if unknown := unknown_ids(ids):
        numbers = ", ".join(map(str, unknown[:8])) + (" ..." if len(unknown) > 8 else "")
        return ids, _usable(path, FaultKind.UNKNOWN_ID, f"unknown label ids {numbers}; ignored")
    return ids, _usable(path, FaultKind.MODE, problem)


def find_mismatch(label_path: str, image_size: tuple[int, ...], label_size: tuple[int, ...]) -> DataFault | None:
    """Sizes are (height, width)."""
    if image_size == label_size:
        return None
    problem = f"{label_size[1]} x {label_size[0]} pixels, its image has {image_size[1]} x {image_size[0]}"
    return DataFault(path=printable(label_path), kind=FaultKind.WRONG_SIZE, problem=problem)


def _read_file(root: Path, path: str, read: Callable[[bytes], Found], max_bytes: int | None = None) -> Found:
    try:
        with (root / path).open("rb") as file:
            num_bytes = os.fstat(file.fileno()).st_size
            refuse_too_large(num_bytes)
            return read(file.read(num_bytes if max_bytes is None else max_bytes))
    except PngError as error:
        kind, problem = error.kind, error.problem
    except OSError as error:
        kind, problem = FaultKind.UNREADABLE, error.strerror or str(error)
    raise UnusablePairError(DataFault(path=printable(path), kind=kind, problem=problem))


def refuse_too_large(num_bytes: int) -> None:
    if (problem := why_too_large(num_bytes)) is not None:
        raise PngError(FaultKind.TOO_LARGE, problem)


def _usable(path: str, kind: FaultKind, problem: str | None) -> DataFault | None:
    return None if problem is None else DataFault(path=printable(path), kind=kind, problem=problem, usable=True)
