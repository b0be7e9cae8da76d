"""Access to the files of a data set by names that others wrote: nothing outside its folder is ever opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import AnyStr

from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError
from trainmark.units import format_bytes

MAX_FILE_BYTES = 2**26  # larger than any image; a damaged disk may claim any size


class OutsideError(OSError):
    """A link that points outside the folder."""

    def __init__(self) -> None:
        super().__init__(errno.EPERM, "a link that points outside the folder")


def is_hidden(name: AnyStr) -> bool:
    """Whether to skip a file: caches and thumbnails start with a dot, files of public data sets do not.

    Training and the manifest both use this, so that they see the same files.
    """
    return name.startswith("." if isinstance(name, str) else b".")


def resolve_folder(root: Path, *, holding: str) -> Path:
    """The data set's folder with all links resolved; `holding` says for an error message what should be in it."""
    try:
        resolved = root.resolve(strict=True)
        with os.scandir(resolved):
            return resolved
    except FileNotFoundError:
        raise DataError(f"not found: {root}", hint="check the spelling, and that the disk is mounted") from None
    except NotADirectoryError:
        raise DataError(f"{root} is not a folder", hint=f"give the folder that contains {holding}") from None
    except OSError as error:
        raise DataError(
            f"{root} cannot be read",
            why=error.strerror or str(error),
            hint="ask its owner for read and search permission: chmod -R a+rX",
        ) from error
    except RuntimeError as error:  # a link that points to itself
        raise DataError(f"{root} cannot be read", why=str(error), hint="give the real folder") from error


def why_too_large(num_bytes: int) -> str | None:
    """Call before reading a whole file, because it may be larger than the memory."""
    if num_bytes <= MAX_FILE_BYTES:
        return None
    return f"{format_bytes(num_bytes)} is too large for an image (limit {format_bytes(MAX_FILE_BYTES)}); not read"


def is_safe_name(path: str) -> bool:
    """Whether a path from an annotation file stays below the folder, apart from links."""
    return path != "" and "\0" not in path and not path.startswith("/") and ".." not in path.split("/")


def real_path(root: str, path: str) -> str:
    """`path` below `root` with all links followed; `root` is resolved already."""
    found = os.path.realpath(f"{root}/{path}")
    if not found.startswith(root.rstrip("/") + "/"):
        raise OutsideError
    return found


def judge_link(root: str, path: str) -> DataFault | None:
    """What is wrong with a link at `path` below `root`, which is resolved already; None if it may be followed."""
    target = os.path.realpath(f"{root}/{path}")
    if not target.startswith(root.rstrip("/") + "/"):
        problem = f"a link to {printable(target)}, outside the folder"
        return DataFault(path=printable(path), kind=FaultKind.OUTSIDE, problem=problem)
    if not os.path.exists(target):  # noqa: PTH110  a Path here would double the time of a large scan
        return DataFault(path=printable(path), kind=FaultKind.DANGLING, problem="a broken link")
    return None


def refuse_outside(root: AnyStr, target: AnyStr) -> None:
    """Both are resolved already."""
    if target != root and not target.startswith(os.path.join(root, root[:0])):  # noqa: PTH118  may be bytes
        raise OutsideError


def open_inside(root: AnyStr, folder: AnyStr, name: AnyStr) -> int:
    """Opens a file for reading. `folder` is known to be inside `root`, so only `name` may be a link that is not.

    A plain file costs one system call.
    """
    # Without O_NONBLOCK a named pipe under an image's name would block for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK
    path = os.path.join(folder, name)  # noqa: PTH118  may be bytes
    try:
        return os.open(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
    target = os.path.realpath(path)
    refuse_outside(root, target)
    return os.open(target, flags)


def read_inside(root: str, folder: str, name: str) -> bytes:
    """The content of a file; `folder` is a result of `real_path`."""
    descriptor = open_inside(root, folder, name)
    try:
        return os.read(descriptor, min(os.fstat(descriptor).st_size, MAX_FILE_BYTES))
    finally:
        os.close(descriptor)
