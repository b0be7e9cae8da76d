"""What making or checking a data set tells, the same for every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from trainmark.datasets.faults import DataFault


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
