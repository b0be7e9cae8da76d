"""What can be wrong with a data set on disk, one record per fault, with where it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """The values are the words of `--json`."""

    NO_CLASSES = "no_classes"
    EMPTY_CLASS = "empty_class"
    UNKNOWN_CLASS = "unknown_class"
    OUTSIDE = "outside"
    DANGLING = "dangling_link"
    UNREADABLE = "unreadable"
    LOST = "lost"
    CHANGED = "changed"
    UNLISTED = "not_in_manifest"
    BAD_MANIFEST = "bad_manifest"
    EMPTY_FILE = "empty_file"
    NOT_JPEG = "not_jpeg"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    MODE = "mode"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, kw_only=True)
class DataFault:
    path: str
    """Relative to the data set's folder, and safe to print."""

    kind: FaultKind
    problem: str

    usable: bool = False
    """Whether a training run still gets pixels from it."""


def printable(path: str) -> str:
    """A name may hold anything, also bytes that are no text and codes that move the cursor of a terminal."""
    return path if path.isprintable() else ascii(path)[1:-1]
