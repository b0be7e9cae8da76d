"""The data set formats: every folder of this package with a format.py, and those of other packages."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

from trainmark import plugins
from trainmark.datasets.digests import OnHashed
from trainmark.datasets.manifest import NAME as MANIFEST
from trainmark.datasets.manifest import has_manifest, verify_manifest, write_manifest
from trainmark.datasets.report import CheckReport, DataFault, MakeReport, ManifestState, Summary
from trainmark.datasets.staging import staged_folder
from trainmark.errors import DataError


@dataclass(frozen=True, kw_only=True)
class MakeRequest:
    """Options of `data make`; None means the default of the format."""

    num_samples: int | None = None
    num_classes: int | None = None
    val_fraction: float | None = None
    seed: int | None = None
    num_workers: int | None = None
    source: Path | None = None
    """Folder of the original files, for a format that converts instead of generating."""

    as_videos: bool | None = None
    """Video files instead of folders of frames."""

    image_size: tuple[int, int] | None = None
    """Height and width."""


_FLAGS = {
    "num_samples": "--images",
    "num_classes": "--classes",
    "val_fraction": "--val-fraction",
    "seed": "--seed",
    "num_workers": "--workers",
    "source": "--source",
    "as_videos": "--as-videos",
    "image_size": "--image-size",
}
"""The command-line option of each field of MakeRequest."""


class Check(Protocol):
    def __call__(self, root: Path, *, decode: bool, num_workers: int | None) -> CheckReport:
        """`decode`: decode every sample instead of reading only the ends of files; `num_workers`: threads."""


@dataclass(frozen=True, kw_only=True)
class DatasetFormat:
    name: str
    """As on the command line: `trainmark data make NAME DIR`."""

    summary: str
    """One line for `trainmark list formats`."""

    options: frozenset[str]
    """The fields of MakeRequest that `make` uses; the others are refused, not ignored."""

    make: Callable[[Path, MakeRequest], MakeReport]
    check: Check

    summarise: Callable[[Path], Summary]
    """Lists files but opens no image. Raises one DataError that names everything wrong with the layout."""


@cache
def formats() -> plugins.Registry[DatasetFormat]:
    package = importlib.import_module(__package__)
    folders = (found.name for found in pkgutil.iter_modules(package.__path__) if found.ispkg)
    modules = (f"{__package__}.{name}.format" for name in folders)
    own: list[DatasetFormat] = [
        importlib.import_module(name).FORMAT for name in modules if importlib.util.find_spec(name) is not None
    ]
    return plugins.Registry(
        plugins.FORMATS,
        kind="dataset format",
        built_in=plugins.loaders(sorted(own, key=lambda format_: format_.name)),
        check=plugins.expect(DatasetFormat),
    )


def find_format(name: str) -> DatasetFormat:
    return formats().load(name)


def make_dataset(name: str, root: Path, request: MakeRequest) -> MakeReport:
    format_ = find_format(name)
    unknown = [field for field, value in vars(request).items() if value is not None and field not in format_.options]
    if unknown:
        raise DataError(
            f"{name} does not take {', '.join(_FLAGS[field] for field in unknown)}",
            hint=f"it takes {', '.join(flag for field, flag in _FLAGS.items() if field in format_.options)}",
        )
    # The generator fills a temporary folder, so that the manifest exists before the data set appears.
    with staged_folder(root) as folder:
        try:
            report = format_.make(folder, request)
            write_manifest(folder, num_workers=request.num_workers)
        except DataError as error:
            raise _about(root, folder, error) from error
    return replace(report, root=root)


def check_dataset(
    name: str,
    root: Path,
    *,
    decode: bool,
    num_workers: int | None = None,
    add_manifest: bool = False,
    on_hashed: OnHashed | None = None,
) -> CheckReport:
    """Compares checksums only with `decode`. Never replaces an existing manifest."""
    report = find_format(name).check(root, decode=decode, num_workers=num_workers)
    if has_manifest(root):
        if not decode:
            return replace(report, manifest=ManifestState.UNCHECKED)
        found = verify_manifest(root, num_workers=num_workers, on_hashed=on_hashed)
        state = ManifestState.DIFFERS if found else ManifestState.VERIFIED
        return replace(report, faults=_one_for_each_file(report.faults, found), manifest=state)
    if add_manifest:
        write_manifest(root, num_workers=num_workers, on_hashed=on_hashed)
        return replace(report, manifest=ManifestState.WRITTEN)
    return report


def _one_for_each_file(faults: Sequence[DataFault], found: Sequence[DataFault]) -> tuple[DataFault, ...]:
    """Merges the faults of the format and of the manifest, one per file; a changed file is never only a note.

    A fault of an entry stays separate: a bad entry and a changed file are two faults.
    """
    changes = {fault.path: fault for fault in found if fault.path != MANIFEST}
    told = []
    for fault in faults:
        change = None if fault.is_entry else changes.pop(fault.path, None)
        told.append(fault if change is None else _add_change(fault, change))
    others = (fault for fault in found if fault.path == MANIFEST or fault.path in changes)
    return tuple(sorted([*told, *others], key=lambda fault: fault.path))


def _add_change(fault: DataFault, change: DataFault) -> DataFault:
    return replace(fault, problem=f"{fault.problem}; {change.problem}", usable=False)


def _about(root: Path, folder: Path, error: DataError) -> DataError:
    """Replaces the temporary folder in an error by the folder that the user gave."""
    told = (text.replace(str(folder), str(root)) for text in (error.what, error.why, error.hint))
    what, why, hint = told
    return type(error)(what, why=why, hint=hint)
