"""`manifest.sha256` in a data set's root: the SHA-256 of every file, as `sha256sum -c` reads it.

Lines are sorted by the bytes of the path; the last one is a comment with the number of files and bytes. Hidden files
and the manifest itself are not listed. Manifest and folder are read as sorted streams, so that a million files need no
more memory than ten.
"""

from __future__ import annotations

import heapq
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainmark.datasets.digests import OnHashed, hash_files, walk_files
from trainmark.datasets.report import DataFault, FaultKind, printable
from trainmark.errors import DataError
from trainmark.runfolder.files import replacing
from trainmark.units import format_count

NAME = "manifest.sha256"
_LINE = re.compile(rb"(\\?)([0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_TOTALS = re.compile(rb"# (\d+) files, (\d+) bytes")
_ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\\\": b"\\"}
_MAX_LINE_BYTES = 65_536
_MAX_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Totals:
    num_files: int
    num_bytes: int


def has_manifest(root: Path) -> bool:
    return os.path.lexists(root / NAME)


def write_manifest(root: Path, *, num_workers: int | None = None, on_hashed: OnHashed | None = None) -> Totals:
    """Writes the manifest atomically. Raises DataError if a file cannot be hashed."""
    top = os.fsencode(root.resolve())
    faults: list[DataFault] = []
    num_files = num_bytes = 0
    try:
        with replacing(root / NAME) as file:
            paths = walk_files(top, faults, leave_out=NAME.encode())
            for digest in hash_files(top, paths, num_workers=num_workers, on_hashed=on_hashed):
                if digest.sha256 is None:
                    faults += [digest.fault] if digest.fault is not None else []
                    continue
                file.write(format_line(digest.path, digest.sha256))
                num_files, num_bytes = num_files + 1, num_bytes + digest.num_bytes
            file.write(b"# %d files, %d bytes\n" % (num_files, num_bytes))
            if faults:
                raise _cannot_hash(root, faults)
    except OSError as error:
        raise DataError(
            f"{root / NAME} cannot be written",
            why=error.strerror or str(error),
            hint="free some space, or get write permission for the data set's folder",
        ) from error
    return Totals(num_files=num_files, num_bytes=num_bytes)


def verify_manifest(
    root: Path, *, num_workers: int | None = None, on_hashed: OnHashed | None = None
) -> tuple[DataFault, ...]:
    """One fault for each file that is missing, changed or not listed, and for each invalid line."""
    top = os.fsencode(root.resolve())
    faults: list[DataFault] = []
    expected: dict[bytes, str] = {}  # only of the files being hashed at the moment

    def paths_to_hash() -> Iterator[bytes]:
        for path, sha256 in _pair(root / NAME, top, faults):
            if sha256 is None:
                problem = f"not in {NAME}"
                faults.append(DataFault(path=_shown(path), kind=FaultKind.UNLISTED, problem=problem))
            else:
                expected[path] = sha256
                yield path

    for digest in hash_files(top, paths_to_hash(), num_workers=num_workers, on_hashed=on_hashed):
        wanted = expected.pop(digest.path)
        if digest.fault is not None:
            faults.append(digest.fault)
        elif digest.sha256 != wanted:
            problem = f"changed: its SHA-256 is not the one in {NAME}"
            faults.append(DataFault(path=_shown(digest.path), kind=FaultKind.CHANGED, problem=problem))
    return tuple(sorted(faults, key=lambda fault: fault.path))


def format_line(path: bytes, sha256: str) -> bytes:
    """As sha256sum writes it: a leading backslash means that the name contains escapes."""
    escaped = path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    return (b"\\" if escaped != path else b"") + sha256.encode() + b"  " + escaped + b"\n"


def parse_line(line: bytes) -> tuple[bytes, str] | None:
    """Path and digest; None if the line is invalid or names something outside the folder."""
    matched = _LINE.fullmatch(line.removesuffix(b"\n"))
    if matched is None:
        return None
    escaped, sha256, path = matched.groups()
    if escaped:
        path = re.sub(rb"\\.", lambda found: _ESCAPES.get(found[0], found[0]), path)
    path = path.removeprefix(b"./")  # as `find . -type f -exec sha256sum` writes
    is_inside = path != b"" and not path.startswith(b"/") and b".." not in path.split(b"/") and b"\0" not in path
    return (path, sha256.decode().lower()) if is_inside else None


def _pair(manifest: Path, top: bytes, faults: list[DataFault]) -> Iterator[tuple[bytes, str | None]]:
    """Yields every path that is listed or exists, once, in order, with its listed digest or None."""
    listed = ((path, sha256) for path, sha256 in _in_order(manifest, faults))
    found = ((path, "") for path in walk_files(top, faults, leave_out=NAME.encode()))
    for path, same in itertools.groupby(heapq.merge(listed, found), key=lambda item: item[0]):
        digests = {sha256 for _, sha256 in same} - {""}
        if len(digests) > 1:
            faults.append(_bad(f"lists {_shown(path)} twice, with different digests"))
        yield path, min(digests, default=None)


def _in_order(manifest: Path, faults: list[DataFault]) -> Iterator[tuple[bytes, str]]:
    """Our own manifests are sorted and are streamed twice; one that is not sorted is sorted in memory."""
    before, is_sorted = b"", True
    for path, _ in _read(manifest, faults):
        is_sorted, before = is_sorted and before <= path, path
    lines = _read(manifest, [])
    return lines if is_sorted else iter(sorted(lines))


def _read(manifest: Path, faults: list[DataFault]) -> Iterator[tuple[bytes, str]]:
    num_files = 0
    stated: int | None = None
    if manifest.is_symlink() or not manifest.is_file():
        faults.append(_bad("not a regular file; not read"))
        return
    try:
        with manifest.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), start=1):
                if line.startswith(b"#") or not line.strip():
                    totals = _TOTALS.match(line)
                    stated = int(totals[1]) if totals else stated
                elif (entry := parse_line(line)) is None:
                    faults.append(_bad(f"line {number} is not a digest and a path inside the folder"))
                else:
                    num_files += 1
                    yield entry
    except OSError as error:
        faults.append(_bad(f"cannot be read: {error.strerror or error}"))
    if stated is not None and stated != num_files:
        faults.append(_bad(f"says {format_count(stated, 'files')} but lists {num_files}"))


def _bad(problem: str) -> DataFault:
    return DataFault(path=NAME, kind=FaultKind.BAD_MANIFEST, problem=problem)


def _shown(path: bytes) -> str:
    return printable(os.fsdecode(path))


def _cannot_hash(root: Path, faults: list[DataFault]) -> DataError:
    named = "; ".join(f"{fault.path}: {fault.problem}" for fault in faults[:_MAX_NAMED])
    more = f" and {len(faults) - _MAX_NAMED} more" if len(faults) > _MAX_NAMED else ""
    return DataError(
        f"no manifest was written for {root}",
        why=f"some files cannot be hashed: {named}{more}",
        hint="remove these, make them readable, or replace links by the files they point to",
    )
