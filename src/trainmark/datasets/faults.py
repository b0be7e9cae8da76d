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
    EMPTY_LIST = "empty_list"
    BAD_LINE = "bad_line"
    NOT_TEXT = "not_text"
    BAD_LABEL = "bad_label"
    MISSING = "missing"
    FEWER_FRAMES = "fewer_frames"
    NO_FRAMES = "no_frames"
    NO_CITIES = "no_cities"
    EMPTY_CITY = "empty_city"
    MISSING_IMAGE = "missing_image"
    MISSING_LABEL = "missing_label"
    NOT_PNG = "not_png"
    WRONG_SIZE = "wrong_size"
    UNKNOWN_ID = "unknown_id"
    NO_IMAGES = "no_images"
    OUTSIDE_IMAGE = "outside_image"
    ZERO_AREA = "zero_area"
    MISSING_ANNOTATIONS = "missing_annotations"
    BAD_ANNOTATIONS = "bad_annotations"
    EMPTY_ANNOTATIONS = "empty_annotations"
    BAD_RECORD = "bad_record"
    DUPLICATE_ID = "duplicate_id"
    UNKNOWN_IMAGE = "unknown_image"
    UNKNOWN_CATEGORY = "unknown_category"
    OTHER_CATEGORIES = "other_categories"
    EMPTY_BOX = "empty_box"
    BAD_MASK = "bad_mask"
    POLYGON_OUTSIDE = "polygon_outside"
    SIZE_MISMATCH = "size_mismatch"


@dataclass(frozen=True, kw_only=True)
class DataFault:
    path: str
    """Relative to the data set's folder, and safe to print."""

    kind: FaultKind
    problem: str

    usable: bool = False
    """Whether a run takes it as it is, or what can be used of it. Never so if the manifest says otherwise."""

    is_entry: bool = False
    """Of one entry of an annotation file or a list, whose others may be good: the file is not to be thrown away."""

    @property
    def is_note(self) -> bool:
        """A run goes on with it by design, and the data set is good. One that uses half of a damaged file is not."""
        return self.usable and self.kind not in (FaultKind.TRUNCATED, FaultKind.CORRUPT)


def printable(path: str) -> str:
    """A name may hold anything, also bytes that are no text and codes that move the cursor of a terminal."""
    return path if path.isprintable() else ascii(path)[1:-1]
