"""The data set formats, found by looking: a folder of this package with a format.py is one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from trainmark.datasets.report import CheckReport, MakeReport, Summary
from trainmark.errors import DataError


@dataclass(frozen=True, kw_only=True)
class MakeRequest:
    """What a person may ask of any generator; None leaves the choice to the format."""

    num_samples: int | None = None
    num_classes: int | None = None
    val_fraction: float | None = None
    seed: int | None = None
    num_workers: int | None = None
    source: Path | None = None
    """Where the original files are, for a format that converts rather than invents."""


@dataclass(frozen=True, kw_only=True)
class DatasetFormat:
    name: str
    """As on the command line: `trainmark data make NAME DIR`."""

    summary: str
    """One line for `trainmark data list`."""

    options: frozenset[str]
    """The fields of MakeRequest that `make` heeds; the others are refused rather than ignored."""

    make: Callable[[Path, MakeRequest], MakeReport]
    check: Callable[[Path, bool, int | None], CheckReport]
    """(folder, decode every sample, threads)."""

    summarise: Callable[[Path], Summary]
    """Lists, opens no image; a layout that cannot be used is one DataError that names all of it."""


@cache
def all_formats() -> Mapping[str, DatasetFormat]:
    """By name, in the order of names."""
    package = importlib.import_module(__package__)
    folders = (found.name for found in pkgutil.iter_modules(package.__path__) if found.ispkg)
    formats = [importlib.import_module(f"{__package__}.{name}.format").FORMAT for name in folders]
    return MappingProxyType({format_.name: format_ for format_ in sorted(formats, key=lambda format_: format_.name)})


def find_format(name: str) -> DatasetFormat:
    try:
        return all_formats()[name]
    except KeyError:
        raise DataError(
            f"no data set format is called {name!r}", hint=f"known formats: {', '.join(all_formats())}"
        ) from None


def make_dataset(name: str, root: Path, request: MakeRequest) -> MakeReport:
    format_ = find_format(name)
    unknown = [field for field, value in vars(request).items() if value is not None and field not in format_.options]
    if unknown:
        raise DataError(
            f"{name} cannot be made with {', '.join(unknown)}",
            why="the format has no such choice",
            hint=f"it takes {', '.join(sorted(format_.options))}",
        )
    return format_.make(root, request)


def check_dataset(name: str, root: Path, *, decode: bool, num_workers: int | None = None) -> CheckReport:
    return find_format(name).check(root, decode, num_workers)
