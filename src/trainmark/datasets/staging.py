"""Writes a folder completely or not at all: it is filled under a temporary name, then renamed."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainmark.datasets import manifest
from trainmark.errors import DataError

_HINTS = {
    errno.ENOSPC: "free some space, ask for less, or write to another disk",
    errno.EDQUOT: "free some of your quota, ask for less, or write to another disk",
    errno.EACCES: "choose a folder with write permission",
    errno.EPERM: "choose a folder with write permission",
    errno.EROFS: "choose a disk that is not mounted read-only",
}


@contextmanager
def staged_folder(root: Path) -> Iterator[Path]:
    """Yields the folder to fill. On any failure, including Ctrl-C, it is removed with the parents created for it."""
    try:
        target = Path(os.path.realpath(root))
        refuse_occupied(root)
        new_parents = [parent for parent in target.parents if not parent.exists()]
    except OSError as error:
        raise _as_data_error(root, error) from error
    # An existing empty folder may be a mount point, which cannot be renamed over: it is filled from inside.
    beside = target if target.exists() else target.parent
    private: Path | None = None
    try:
        beside.mkdir(parents=True, exist_ok=True)
        private = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=beside))
        filled = private / target.name  # not mkdtemp's own folder, which only its owner may enter
        filled.mkdir()
        yield filled
        _move_into_place(filled, target)
        private.rmdir()
    except BaseException as error:
        _remove_traces(private, new_parents)
        if isinstance(error, OSError):
            raise _as_data_error(root, error) from error
        raise


def refuse_occupied(root: Path) -> None:
    """Also called before hours of downloading, so that a wrong folder is reported first."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise DataError(
            f"{root} is not empty" if root.is_dir() else f"{root} is a file",
            why="a data set is only written to a new or empty folder, so that nothing is overwritten",
            hint="choose another folder, or remove this one first",
        )


def _move_into_place(filled: Path, target: Path) -> None:
    if not target.exists():
        filled.replace(target)
        return
    # `train` makes a folder a data set, so it must appear last: reversed, it comes after `val`. The manifest comes
    # first, so that a reader who sees a data set also sees what it should contain.
    for child in sorted(filled.iterdir(), key=lambda child: (child.name == manifest.NAME, child.name), reverse=True):
        child.replace(target / child.name)
    filled.rmdir()


def _remove_traces(private: Path | None, new_parents: list[Path]) -> None:
    if private is not None:
        shutil.rmtree(private, ignore_errors=True)
    for parent in new_parents:
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


def _as_data_error(root: Path, error: OSError) -> DataError:
    return DataError(
        f"{root} cannot be written",
        why=f"{error.strerror or error}; nothing was kept",
        hint=_HINTS.get(error.errno or 0, "fix this and run the same command again"),
    )
