"""SHA-256 of all files of a folder: hashed in threads, in constant memory, in the same order on every machine."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial

from trainmark.datasets.inside import OutsideError, is_hidden, open_inside, refuse_outside
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.datasets.workers import choose_num_workers

OnHashed = Callable[[int, int], None]
"""Called repeatedly with the number of files and bytes hashed so far."""

_FILES_PER_TASK = 32
_TASKS_AHEAD = 4  # per thread; bounds the memory used


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDigest:
    path: bytes
    """Relative to the folder; bytes, because a name may not be valid text."""

    sha256: str | None
    num_bytes: int
    fault: DataFault | None
    """Set if there is no digest."""


def walk_files(root: bytes, faults: list[DataFault], *, leave_out: bytes) -> Iterator[bytes]:
    """Yields every file below `root` except hidden ones and `leave_out`, sorted by the bytes of the path.

    A linked folder is not entered: its files are listed under their own names, or are outside the data set.
    """

    def walk(prefix: bytes) -> Iterator[bytes]:
        try:
            with os.scandir(root + b"/" + prefix) as entries:
                found = [(entry.name, _kind(entry)) for entry in entries if not is_hidden(entry.name)]
        except OSError as error:
            shown = printable(os.fsdecode(prefix.rstrip(b"/")))
            faults.append(DataFault(path=shown, kind=FaultKind.UNREADABLE, problem=error.strerror or str(error)))
            return
        # A folder sorts with its slash, as its files do: `a.b` comes before `a/c`.
        for name, kind in sorted((name + b"/" if kind == "folder" else name, kind) for name, kind in found):
            if kind == "folder":
                yield from walk(prefix + name)
            elif kind == "file" and prefix + name != leave_out:
                yield prefix + name

    return walk(b"")


def _kind(entry: os.DirEntry[bytes]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    # A broken link and one that points outside are yielded too: hashing them reports the fault.
    is_file = not entry.is_dir() if entry.is_symlink() else entry.is_file(follow_symlinks=False)
    return "file" if is_file else "other"


def hash_files(
    root: bytes, paths: Iterable[bytes], *, num_workers: int | None = None, on_hashed: OnHashed | None = None
) -> Iterator[FileDigest]:
    """In the order of `paths`. `root` is resolved already."""
    real_folder = lru_cache(maxsize=4096)(os.path.realpath)
    num_threads = choose_num_workers(num_workers)
    num_files = num_bytes = 0
    ahead: deque[Future[list[FileDigest]]] = deque()
    remaining = iter(paths)
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            while True:
                # Not pool.map, which would read all paths at once.
                while len(ahead) < num_threads * _TASKS_AHEAD and (
                    task := list(itertools.islice(remaining, _FILES_PER_TASK))
                ):
                    ahead.append(pool.submit(_hash_some, partial(_open, root, real_folder), task))
                if not ahead:
                    return
                for digest in ahead.popleft().result():
                    num_files, num_bytes = num_files + 1, num_bytes + digest.num_bytes
                    yield digest
                if on_hashed is not None:
                    on_hashed(num_files, num_bytes)
        finally:
            for task_ in ahead:
                task_.cancel()


def _hash_some(open_file: Callable[[bytes], int], paths: list[bytes]) -> list[FileDigest]:
    return [_hash_one(open_file, path) for path in paths]


def _hash_one(open_file: Callable[[bytes], int], path: bytes) -> FileDigest:
    try:
        with os.fdopen(open_file(path), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return _failed(path, FaultKind.UNREADABLE, "not a file")
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OutsideError as error:
        return _failed(path, FaultKind.OUTSIDE, str(error.strerror))
    except (FileNotFoundError, NotADirectoryError):
        return _failed(path, FaultKind.LOST, "listed but missing")
    except (OSError, ValueError) as error:  # ValueError: a null byte in a name
        return _failed(path, FaultKind.UNREADABLE, getattr(error, "strerror", None) or str(error))
    return FileDigest(path=path, sha256=digest, num_bytes=status.st_size, fault=None)


def _failed(path: bytes, kind: FaultKind, problem: str) -> FileDigest:
    fault = DataFault(path=printable(os.fsdecode(path)), kind=kind, problem=problem)
    return FileDigest(path=path, sha256=None, num_bytes=0, fault=fault)


def _open(root: bytes, real_folder: Callable[[bytes], bytes], path: bytes) -> int:
    """Follows links, but never out of `root`. Folders are resolved once, so that a plain file costs one call."""
    folder, name = os.path.split(root + b"/" + path)
    refuse_outside(root, real_folder(folder))
    return open_inside(root, folder, name)
