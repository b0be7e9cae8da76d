"""Access to the files of a data set by names that others wrote: nothing outside its folder is ever opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import AnyStr

from trainmark.errors import DataError
from trainmark.units import format_bytes


def is_hidden(name: AnyStr) -> bool:
    """Caches, thumbnails and half-made copies that tools leave behind begin with a dot; no public set's files do."""
    return name.startswith("." if isinstance(name, str) else b".")


MAX_FILE_BYTES = 2**26  # no image is larger, and a damaged disk may claim anything


class OutsideError(OSError):
    """A link that leads out of the folder."""


def resolve_folder(root: Path, *, holding: str) -> Path:
    """The data set's own folder, with no link left in its path; `holding` is what a person should look for in it."""
    try:
        resolved = root.resolve(strict=True)
        with os.scandir(resolved):
            return resolved
    except FileNotFoundError:
        raise DataError(f"{root} does not exist", hint="check the spelling, and that the disk is mounted") from None
    except NotADirectoryError:
        raise DataError(f"{root} is not a folder", hint=f"give the folder that contains {holding}") from None
    except OSError as error:
        raise DataError(
            f"{root} cannot be read",
            why=error.strerror or str(error),
            hint="ask its owner for read and search permission: chmod -R a+rX",
        ) from error
    except RuntimeError as error:  # a link that leads to itself
        raise DataError(f"{root} cannot be read", why=str(error), hint="give the real folder") from error


def why_too_large(num_bytes: int) -> str | None:
    """To be asked before a file is read whole, because it may claim more bytes than there is memory."""
    if num_bytes <= MAX_FILE_BYTES:
        return None
    return f"{format_bytes(num_bytes)}, and more than {format_bytes(MAX_FILE_BYTES)} is no image; not read"


def is_safe_name(path: str) -> bool:
    """Whether a path of an annotation file can only mean something below the folder, links left aside."""
    return path != "" and "\0" not in path and not path.startswith("/") and ".." not in path.split("/")


def real_path(root: str, path: str) -> str:
    """Of `path` below `root`, which is resolved already; all links followed."""
    found = os.path.realpath(f"{root}/{path}")
    if not found.startswith(root.rstrip("/") + "/"):
        raise OutsideError(errno.EPERM, "a link that leads outside the folder")
    return found


def read_inside(root: str, folder: str, name: str) -> bytes:
    """`folder` is a result of `real_path`, so that only `name` may still be a link; plain files cost no extra call."""
    # Without O_NONBLOCK a named pipe under an image's name would stop the run for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK
    try:
        descriptor = os.open(f"{folder}/{name}", flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
        descriptor = os.open(real_path(root, os.path.relpath(f"{folder}/{name}", root)), flags)
    try:
        return os.read(descriptor, min(os.fstat(descriptor).st_size, MAX_FILE_BYTES))
    finally:
        os.close(descriptor)
