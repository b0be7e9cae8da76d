"""What checking or making a data set reports, the same for every format: faults, counts, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


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


@dataclass(frozen=True, kw_only=True)
class SplitCount:
    name: str
    num_samples: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """What else was counted: images of each class, objects, words, frames."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run must know before it starts; found without opening an image."""

    num_train: int
    num_val: int
    num_classes: int


class ManifestState(StrEnum):
    """The values are the words of `--json`."""

    ABSENT = "absent"
    UNCHECKED = "unchecked"
    VERIFIED = "verified"
    DIFFERS = "differs"
    WRITTEN = "written"


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    root: Path
    unit: str
    """`images` or `clips`."""

    decoded: bool
    """Whether every sample was decoded, or only its beginning and end were looked at."""

    classes: tuple[str, ...]
    splits: tuple[SplitCount, ...]
    num_bytes: int
    num_ignored: int
    """Files of other types, and hidden ones."""

    faults: tuple[DataFault, ...]
    """All that was found, notes too."""

    manifest: ManifestState = ManifestState.ABSENT
    """Of the checksums; filled in for all formats alike."""

    @property
    def ok(self) -> bool:
        return not self.serious

    @property
    def serious(self) -> tuple[DataFault, ...]:
        return tuple(fault for fault in self.faults if not fault.is_note)

    @property
    def notes(self) -> tuple[DataFault, ...]:
        """What a run goes on with by design; ImageNet and COCO have some as they are published."""
        return tuple(fault for fault in self.faults if fault.is_note)

    @property
    def num_samples(self) -> int:
        return sum(split.num_samples for split in self.splits)


@dataclass(frozen=True, kw_only=True)
class MakeReport:
    """What was written."""

    root: Path
    unit: str
    classes: tuple[str, ...]
    num_train: int
    num_val: int
    num_bytes: int
    elapsed_s: float

    @property
    def num_samples(self) -> int:
        return self.num_train + self.num_val

    @property
    def mean_sample_bytes(self) -> float:
        return self.num_bytes / self.num_samples
