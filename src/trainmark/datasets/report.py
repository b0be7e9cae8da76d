"""What checking or making a data set reports, the same for every format: faults, counts, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from trainmark.errors import DataError


class FaultKind(StrEnum):
    """The values appear in `--json`."""

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
    """Whether a run uses the file, or the good part of it. Never true if the file differs from the manifest."""

    is_entry: bool = False
    """The fault is in one entry of an annotation file or list; the other entries may be good, so keep the file."""

    @property
    def is_note(self) -> bool:
        """Whether the data set counts as good in spite of it. A damaged file of which a part is used is a fault."""
        return self.usable and self.kind not in (FaultKind.TRUNCATED, FaultKind.CORRUPT)


def printable(path: str) -> str:
    """A name for display: it may contain invalid text and codes that control a terminal, which are escaped."""
    return path if path.isprintable() else ascii(path)[1:-1]


@dataclass(frozen=True, kw_only=True)
class SplitCount:
    name: str
    num_samples: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """Other counts: images per class, objects, words, frames."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run needs to know before it starts; found without opening an image."""

    num_train: int
    num_val: int
    num_classes: int


Remedies = Mapping[FaultKind, tuple[str, str]]
"""For each kind of fault that keeps a run from starting: what is listed, and what to do about it."""

LINK_REMEDIES: Remedies = {
    FaultKind.OUTSIDE: ("links that point outside the folder:", "give the real folder, or copy the files into it"),
    FaultKind.DANGLING: ("broken links:", "remove these links or restore their targets"),
    FaultKind.UNREADABLE: ("cannot be read:", "ask the owner for read and search permission: chmod -R a+rX"),
}
_LISTED_IN_FULL = (FaultKind.EMPTY_CLASS, FaultKind.UNKNOWN_CLASS)  # there are not many classes, but a million files
_MAX_LISTED = 10


def unusable_folder(
    root: Path, faults: Sequence[DataFault], remedies: Remedies, *, format_: str, with_problems: bool = False
) -> DataError:
    """One error that names all faults, grouped by kind."""
    by_kind: dict[FaultKind, list[DataFault]] = {}
    for fault in faults:
        by_kind.setdefault(fault.kind, []).append(fault)
    whys = []
    for kind, group in by_kind.items():
        shown = group if kind in _LISTED_IN_FULL else group[:_MAX_LISTED]
        names = ", ".join(f"{fault.path} ({fault.problem})" if with_problems else fault.path for fault in shown)
        more = f" and {len(group) - len(shown)} more" if len(shown) < len(group) else ""
        whys.append(f"{remedies[kind][0]} {names}{more}")
    hints = "; ".join(remedies[kind][1] for kind in by_kind)
    return DataError(
        f"{root} cannot be used as it is",
        why="; ".join(whys),
        hint=f"{hints}. `trainmark data check {format_} {root}` lists everything",
    )


class ManifestState(StrEnum):
    """The values appear in `--json`."""

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
    """Whether every sample was decoded; otherwise only the ends of its file were read."""

    classes: tuple[str, ...]
    splits: tuple[SplitCount, ...]
    num_bytes: int
    num_ignored: int
    """Files of other types, and hidden ones."""

    faults: tuple[DataFault, ...]
    """Includes notes."""

    manifest: ManifestState = ManifestState.ABSENT
    """Result of the checksums, which are the same for all formats."""

    @property
    def ok(self) -> bool:
        return not self.serious

    @property
    def serious(self) -> tuple[DataFault, ...]:
        return tuple(fault for fault in self.faults if not fault.is_note)

    @property
    def notes(self) -> tuple[DataFault, ...]:
        """Oddities that a run handles; ImageNet and COCO contain some as published."""
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
