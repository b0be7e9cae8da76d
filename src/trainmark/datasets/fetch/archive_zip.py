"""A zip file, by its table of contents."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable
from typing import IO

from trainmark.datasets.faults import printable
from trainmark.datasets.fetch.extraction import Extraction
from trainmark.errors import DataError

_MAX_LINK_BYTES = 4096
_UNIX = 3
_BOUNDED_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_METHOD_NAMES = {9: "Deflate64", zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "LZMA", 93: "Zstandard", 95: "XZ"}
_DRIVE = re.compile(r"[A-Za-z]:")


def unpack_zip(file: IO[bytes], extraction: Extraction, on_bytes: Callable[[int], None]) -> None:
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
                _unpack_member(archive, member, extraction)
            except NotImplementedError as error:
                raise extraction.refuse(member.filename, f"cannot be read here: {error}") from error
            done += member.file_size
            on_bytes(done)


def _refuse_unbounded(members: list[zipfile.ZipInfo], extraction: Extraction) -> None:
    """Python reads bzip2 and LZMA in a zip without a limit: a few hundred bytes of them can fill the memory."""
    for member in members:
        if member.compress_type not in _BOUNDED_METHODS:
            method = _METHOD_NAMES.get(member.compress_type, f"method {member.compress_type}")
            raise DataError(
                f"{extraction.archive} was not unpacked",
                why=f"{printable(member.filename)!r} is compressed by {method}; of a zip, only what is stored or "
                "deflated can be read here within bounds of memory",
                hint="if you trust it, unpack it with unzip or 7z",
            )


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, extraction: Extraction) -> None:
    name = member.filename.replace("\\", "/")  # as some programs on Windows write it
    if _DRIVE.match(name):
        raise extraction.refuse(name, "an absolute path")
    kind = stat.S_IFMT(member.external_attr >> 16) if member.create_system == _UNIX else 0
    if name.endswith("/"):
        extraction.add_folder(name)
    elif kind == stat.S_IFLNK:
        with archive.open(member) as source:
            target = source.read(_MAX_LINK_BYTES + 1)  # never all of it: the stated size may be a lie
        if len(target) > _MAX_LINK_BYTES:
            raise extraction.refuse(name, "a link that is too long")
        extraction.add_link(name, target.decode(errors="surrogateescape"))
    elif kind in (0, stat.S_IFREG):
        with archive.open(member) as source:
            extraction.add_file(name, member.file_size, source)
    else:
        raise extraction.refuse(name, "neither a file, a folder nor a link; devices and pipes are not made")
