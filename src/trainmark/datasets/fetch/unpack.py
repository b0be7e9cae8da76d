"""Unpacks an archive into a folder, completely or not at all. Its first bytes tell its kind, not its name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from trainmark.datasets.fetch.extraction import Extraction, Limits
from trainmark.datasets.fetch.request import OnBytes
from trainmark.datasets.report import printable
from trainmark.datasets.staging import staged_folder
from trainmark.errors import DataError

_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
_INVALID_HEADER = (ValueError, OverflowError, RuntimeError)  # raised by the readers for headers with absurd values
_TAR_MAGIC_AT = 257
_TAR_BLOCK_BYTES = 2**20
_TAR_END_BYTES = 2 * tarfile.BLOCKSIZE
_MAX_LINK_BYTES = 4096
_UNIX = 3
_BOUNDED_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_METHOD_NAMES = {9: "Deflate64", zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "LZMA", 93: "Zstandard", 95: "XZ"}
_DRIVE = re.compile(r"[A-Za-z]:")
_SPECIAL = "a device, pipe or other special file; only files, folders and links are unpacked"


def unpack_archive(archive: Path, folder: Path, on_bytes: OnBytes, *, limits: Limits | None = None) -> int:
    """Returns the number of files. An existing folder must be empty."""
    total = archive.stat().st_size
    with archive.open("rb") as file:
        head = file.read(512)
        file.seek(0)
        with staged_folder(folder) as staged:
            extraction = Extraction(archive, staged, limits or Limits())
            try:
                if head.startswith(_ZIP):
                    _unpack_zip(file, extraction, lambda done: on_bytes(done, None))
                else:
                    stream = _decompress(archive, file, head)
                    _unpack_tar(stream, extraction, lambda: on_bytes(file.tell(), total))
            except (*_DAMAGED, *_INVALID_HEADER) as error:
                raise _damaged(archive, extraction, error) from error
            except OSError as error:
                if error.errno is None:  # bz2 reports invalid data this way
                    raise _damaged(archive, extraction, error) from error
                raise
            extraction.finish()
    return extraction.num_files


def _decompress(archive: Path, file: IO[bytes], head: bytes) -> IO[bytes]:
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(file, "rb"))
    if head.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(file, "rb"))
    if head.startswith(b"\xfd7zXZ\x00"):
        return cast("IO[bytes]", lzma.open(file, "rb"))
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar" or tarfile.is_tarfile(archive):
        return file
    raise _not_an_archive(archive)


def _damaged(archive: Path, extraction: Extraction, error: Exception) -> DataError:
    if extraction.is_untouched and isinstance(error, tarfile.ReadError):
        return _not_an_archive(archive)
    return DataError(
        f"{archive} was not unpacked",
        why=f"it is damaged: {error or type(error).__name__}; nothing of it was kept",
        hint="fetch it again, with --sha256 or --md5 if its publisher states one; "
        "if it is still damaged, tar or unzip may recover a part of it",
    )


def _not_an_archive(archive: Path) -> DataError:
    return DataError(
        f"{archive} was not unpacked",
        why="not an archive: neither zip nor tar (plain, gz, bz2 or xz)",
        hint="look at its content: a login page is often saved under an archive's name",
    )


class _CountedStream:
    """Counts decompressed bytes, because headers can be a bomb too, and remembers where the trailing zeros start."""

    def __init__(self, stream: IO[bytes], extraction: Extraction) -> None:
        self._stream, self._extraction = stream, extraction
        self.num_bytes = 0
        self.end_of_content = 0
        """Offset after the last byte that is not zero."""

    def read(self, size: int) -> bytes:
        block = self._stream.read(size)
        if content := block.rstrip(b"\0"):
            self.end_of_content = self.num_bytes + len(content)
        self.num_bytes += len(block)
        self._extraction.refuse_bomb(self.num_bytes)
        return block


def _unpack_tar(stream: IO[bytes], extraction: Extraction, on_member: Callable[[], None]) -> None:
    """Reads the stream once. Members are written by `Extraction`, see docs/decisions/0007-fetch-is-ours.md."""
    counted = _CountedStream(stream, extraction)
    with tarfile.open(fileobj=cast("IO[bytes]", counted), mode="r|", bufsize=_TAR_BLOCK_BYTES) as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it keeps all members: a gigabyte for a million files
            _unpack_tar_member(tar, member, extraction)
            on_member()
        end_of_members: int = tar.offset
    while counted.read(_TAR_BLOCK_BYTES):
        pass  # to the end, where the checksum of the compression is verified
    # tarfile takes any header that it cannot read for the end, so check that the end is at least two blocks of zeros.
    if counted.end_of_content > end_of_members:
        raise tarfile.TarError(f"neither a file header nor the end of the archive at byte {end_of_members}")
    if counted.num_bytes < end_of_members + _TAR_END_BYTES:
        raise tarfile.TarError(f"truncated at byte {counted.num_bytes}: no end-of-archive mark")


def _unpack_tar_member(tar: tarfile.TarFile, member: tarfile.TarInfo, extraction: Extraction) -> None:
    if member.isdir():
        extraction.add_folder(member.name)
    elif member.issym():
        extraction.add_link(member.name, member.linkname)
    elif member.islnk():
        extraction.add_hard_link(member.name, member.linkname)
    elif member.isfile() and (source := tar.extractfile(member)) is not None:
        extraction.add_file(member.name, member.size, source)
    else:
        raise extraction.refuse(member.name, _SPECIAL)


def _unpack_zip(file: IO[bytes], extraction: Extraction, on_bytes: Callable[[int], None]) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.flag_bits & 1 for member in members):
            raise DataError(
                f"{extraction.archive} was not unpacked",
                why="it is encrypted",
                hint="unpack it with a program that asks for the password",
            )
        _refuse_unbounded(members, extraction)
        stated = sum(member.file_size for member in members)
        extraction.refuse_bomb(stated)
        extraction.refuse_no_space(stated)
        done = 0
        for member in members:
            try:
                _unpack_zip_member(archive, member, extraction)
            except NotImplementedError as error:
                raise extraction.refuse(member.filename, f"not supported: {error}") from error
            done += member.file_size
            on_bytes(done)


def _refuse_unbounded(members: list[zipfile.ZipInfo], extraction: Extraction) -> None:
    """zipfile decompresses bzip2 and LZMA without a limit: a few hundred bytes of them can fill the memory."""
    for member in members:
        if member.compress_type not in _BOUNDED_METHODS:
            method = _METHOD_NAMES.get(member.compress_type, f"method {member.compress_type}")
            raise DataError(
                f"{extraction.archive} was not unpacked",
                why=f"{printable(member.filename)!r} is compressed with {method}; only stored and deflated members "
                "of a zip can be read in bounded memory",
                hint="if you trust it, unpack it with unzip or 7z",
            )


def _unpack_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, extraction: Extraction) -> None:
    name = member.filename.replace("\\", "/")  # some programs on Windows write backslashes
    if _DRIVE.match(name):
        raise extraction.refuse(name, "an absolute path")
    kind = stat.S_IFMT(member.external_attr >> 16) if member.create_system == _UNIX else 0
    if name.endswith("/"):
        extraction.add_folder(name)
    elif kind == stat.S_IFLNK:
        with archive.open(member) as source:
            target = source.read(_MAX_LINK_BYTES + 1)  # bounded, because the stated size may be wrong
        if len(target) > _MAX_LINK_BYTES:
            raise extraction.refuse(name, "a link that is too long")
        extraction.add_link(name, target.decode(errors="surrogateescape"))
    elif kind in (0, stat.S_IFREG):
        with archive.open(member) as source:
            extraction.add_file(name, member.file_size, source)
    else:
        raise extraction.refuse(name, _SPECIAL)
