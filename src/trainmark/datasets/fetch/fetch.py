"""`trainmark data fetch`: download, join, verify, rename, unpack. An incomplete file never has its final name."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.fetch.download import Effort, download
from trainmark.datasets.fetch.partial import join_parts, state_file
from trainmark.datasets.fetch.request import Address, Algorithm, Checksum, hash_file, name_file, parse_address
from trainmark.datasets.fetch.unpack import unpack_archive
from trainmark.datasets.staging import refuse_occupied
from trainmark.errors import DataError

OnStage = Callable[[str, int, int | None], None]
"""Called with the name of the stage, the bytes done and, if known, the total."""


@dataclass(frozen=True, kw_only=True)
class FetchRequest:
    urls: Sequence[str]
    output: str
    """A file, or a folder if it exists or ends in a slash."""

    effort: Effort
    checksum: Checksum | None = None
    unpack: Path | None = None


@dataclass(frozen=True, kw_only=True)
class FetchReport:
    output: Path
    num_parts: int
    num_bytes: int
    sha256: str
    checked: Algorithm | None
    """The kind of checksum that was given and matched."""

    was_there: bool
    """The complete file existed already."""

    unpacked: Path | None
    num_files: int | None
    """Number of files unpacked."""

    elapsed_s: float


def fetch(request: FetchRequest, *, on_stage: OnStage, say: Callable[[str], None]) -> FetchReport:
    started = time.monotonic()
    addresses = [parse_address(url) for url in request.urls]
    target = _choose_target(request.output, addresses)
    if request.unpack is not None:
        refuse_occupied(request.unpack)
    was_there = os.path.lexists(target)
    if was_there:
        digests = _recognise(target, request.checksum, on_stage)
    else:
        try:
            digests = _fetch_new(addresses, target, request, on_stage, say)
        except OSError as error:
            why = f"{error.strerror or error}; what was received is kept beside it"
            hint = "free some space or fix this, then run the same command again to resume"
            raise DataError(f"{target} cannot be written", why=why, hint=hint) from error
    num_files = None
    if request.unpack is not None:
        num_files = unpack_archive(target, request.unpack, lambda done, total: on_stage("unpacking", done, total))
    return FetchReport(
        output=target,
        num_parts=len(addresses),
        num_bytes=target.stat().st_size,
        sha256=digests["sha256"],
        checked=None if request.checksum is None else request.checksum.algorithm,
        was_there=was_there,
        unpacked=request.unpack,
        num_files=num_files,
        elapsed_s=time.monotonic() - started,
    )


def _choose_target(output: str, addresses: Sequence[Address]) -> Path:
    path = Path(output)
    return path / name_file(addresses) if output.endswith("/") or path.is_dir() else path


@contextmanager
def _folder_for(target: Path) -> Iterator[None]:
    """Creates the folder if needed, and removes it again if it stays empty."""
    new = [parent for parent in target.absolute().parents if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for parent in new:
            with contextlib.suppress(OSError):
                parent.rmdir()  # fails if it is not empty, as intended


def _recognise(target: Path, checksum: Checksum | None, on_stage: OnStage) -> dict[Algorithm, str]:
    """A file with the right checksum was fetched before: only unpacking is left."""
    if checksum is None or not target.is_file():
        raise DataError(
            f"{target} exists",
            why="existing files are not overwritten",
            hint="choose another --output or remove it; with --sha256 or --md5 it is verified and used",
        )
    digests = _hash(target, checksum, on_stage)
    if digests[checksum.algorithm] != checksum.digits:
        raise DataError(
            f"{target} exists and is a different file",
            why=f"its {checksum.algorithm} is {digests[checksum.algorithm]}",
            hint="choose another --output, or remove it to fetch it again",
        )
    return digests


def _fetch_new(
    addresses: Sequence[Address], target: Path, request: FetchRequest, on_stage: OnStage, say: Callable[[str], None]
) -> dict[Algorithm, str]:
    partial = target.with_name(target.name + ".partial")
    with _folder_for(target), _only_one(partial):
        state = download(
            addresses,
            partial,
            effort=request.effort,
            has_checksum=request.checksum is not None,
            on_bytes=lambda done, total: on_stage("downloading", done, total),
            say=say,
        )
        join_parts(partial, state, lambda done, total: on_stage("joining", done, total))
        digests = _hash(partial, request.checksum, on_stage)
        if request.checksum is not None and digests[request.checksum.algorithm] != request.checksum.digits:
            raise _reject(partial, target, request.checksum, digests)
        partial.replace(target)
        state_file(partial).unlink()
    return digests


def _hash(path: Path, checksum: Checksum | None, on_stage: OnStage) -> dict[Algorithm, str]:
    """Always computes SHA-256 too, so that it can be noted if none was given."""
    asked: set[Algorithm] = {"sha256"} if checksum is None else {"sha256", checksum.algorithm}
    return hash_file(path, asked, lambda done, total: on_stage("checksum", done, total))


def _reject(partial: Path, target: Path, checksum: Checksum, digests: dict[Algorithm, str]) -> DataError:
    """Renames the file, so that it can be examined (often it is a login page) but is not resumed."""
    rejected = target.with_name(target.name + ".rejected")
    partial.replace(rejected)
    state_file(partial).unlink()
    return DataError(
        f"{target}: wrong checksum",
        why=f"{checksum.algorithm}: expected {checksum.digits}, got {digests[checksum.algorithm]}",
        hint=f"what was received is in {rejected}; check the checksum and the order of the parts, then fetch again",
    )


@contextmanager
def _only_one(partial: Path) -> Iterator[None]:
    """Locks out a second process, which would corrupt the file. The lock is released whenever the process ends."""
    lock = partial.with_name(partial.name + ".lock")
    try:
        file = lock.open("wb")
    except OSError as error:
        why = error.strerror or str(error)
        raise DataError(f"{partial} cannot be written", why=why, hint="choose another --output") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):  # otherwise the file system has no locks: continue
                hint = "wait for it, or choose another --output"
                raise DataError(f"{partial} is being fetched by another process", hint=hint) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                lock.unlink()
