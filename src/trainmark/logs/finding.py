"""Find log files: the files given, or all below a folder, without following links that lead out of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.errors import InputError
from trainmark.runfolder.files import RUN_FILE


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    path: Path
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A file that was not imported, and why."""

    path: str
    reason: str


def find_files(paths: Sequence[Path]) -> tuple[list[FoundFile], list[Skipped]]:
    """In the order of the paths, sorted within each; no file twice."""
    found: dict[str, FoundFile] = {}
    skipped: list[Skipped] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"not found: {path}", hint="pass log files or folders")
        for file in [path] if not path.is_dir() else _walk(path, skipped):
            if not file.is_file():
                skipped.append(Skipped(path=str(file), reason="not a regular file"))
                continue
            found.setdefault(os.path.realpath(file), FoundFile(path=file, num_bytes=file.stat().st_size))
    return list(found.values()), skipped


def _walk(root: Path, skipped: list[Skipped]) -> list[Path]:
    home = os.path.realpath(root)
    files = []
    for folder, names, leaves in os.walk(root, followlinks=False):
        here = Path(folder)
        if RUN_FILE in leaves and here != root:
            names.clear()  # a trainmark run folder contains no foreign logs
            continue
        names[:] = sorted(name for name in names if name != ".git")
        for name in sorted(leaves):
            file = here / name
            if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(home):
                skipped.append(Skipped(path=str(file), reason="a link that leads out of the folder"))
            else:
                files.append(file)
    return files
