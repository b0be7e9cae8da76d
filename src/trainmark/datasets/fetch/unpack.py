"""An archive becomes a folder, whole or not at all; what kind it is, its first bytes say, not its name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, cast

from trainmark.datasets.fetch.archive_tar import unpack_tar
from trainmark.datasets.fetch.archive_zip import unpack_zip
from trainmark.datasets.fetch.checksum import OnBytes
from trainmark.datasets.fetch.extraction import Extraction, Limits
from trainmark.datasets.staging import staged_folder
from trainmark.errors import DataError

_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
_SENSELESS = (ValueError, OverflowError, RuntimeError)  # what the readers say of headers that nobody would write
_TAR_MAGIC_AT = 257


def unpack_archive(archive: Path, folder: Path, on_bytes: OnBytes, *, limits: Limits | None = None) -> int:
    """The number of files. A folder that is there must be empty."""
    total = archive.stat().st_size
    with archive.open("rb") as file:
        head = file.read(512)
        file.seek(0)
        with staged_folder(folder) as staged:
            extraction = Extraction(archive, staged, limits or Limits())
            try:
                if head.startswith(_ZIP):
                    unpack_zip(file, extraction, lambda done: on_bytes(done, None))
                else:
                    stream = _decompress(archive, file, head)
                    unpack_tar(stream, extraction, lambda: on_bytes(file.tell(), total))
            except (*_DAMAGED, *_SENSELESS) as error:
                raise _not_whole(archive, extraction, error) from error
            except OSError as error:
                if error.errno is None:  # bz2 says so of bytes that it cannot read
                    raise _not_whole(archive, extraction, error) from error
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


def _not_whole(archive: Path, extraction: Extraction, error: Exception) -> DataError:
    if extraction.is_untouched and isinstance(error, tarfile.ReadError):
        return _not_an_archive(archive)
    return DataError(
        f"{archive} was not unpacked",
        why=f"it is damaged: {error or type(error).__name__}; nothing of it was kept",
        hint="fetch it again, with --sha256 or --md5 if its publisher states one; "
        "if the same comes again, tar or unzip may save a part of it",
    )


def _not_an_archive(archive: Path) -> DataError:
    return DataError(
        f"{archive} was not unpacked",
        why="it is no archive: neither zip nor tar (plain, gz, bz2 or xz)",
        hint="look at what it holds: a page that asks to log in is often saved under an archive's name",
    )
