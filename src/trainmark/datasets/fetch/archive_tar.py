"""A tar stream, read once from front to back."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from typing import IO, cast

from trainmark.datasets.fetch.extraction import Extraction

_BLOCK_BYTES = 2**20
_END_BYTES = 2 * tarfile.BLOCKSIZE
_data_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on; our own checks do not lean on it
_FILTER_WORDS = {
    "AbsoluteLinkError": "a link to an absolute path",
    "LinkOutsideDestinationError": "a link that leads outside the folder",
    "OutsideDestinationError": "a path that leads outside the folder",
}


class _Counted:
    """Headers can be a bomb too, so that all that is decompressed counts; so does where its zeros begin."""

    def __init__(self, stream: IO[bytes], extraction: Extraction) -> None:
        self._stream, self._extraction = stream, extraction
        self.num_bytes = 0
        self.end_of_content = 0
        """One past the last byte that is not zero."""

    def read(self, size: int) -> bytes:
        block = self._stream.read(size)
        if content := block.rstrip(b"\0"):
            self.end_of_content = self.num_bytes + len(content)
        self.num_bytes += len(block)
        self._extraction.refuse_bomb(self.num_bytes)
        return block


def unpack_tar(stream: IO[bytes], extraction: Extraction, on_member: Callable[[], None]) -> None:
    """Our own writing, and Python's `data` filter as a second opinion on every member."""
    counted = _Counted(stream, extraction)
    with tarfile.open(fileobj=cast("IO[bytes]", counted), mode="r|", bufsize=_BLOCK_BYTES) as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it remembers all, which a million files make a gigabyte
            _refuse_unsafe(member, extraction)
            _unpack_member(tar, member, extraction)
            on_member()
        end_of_members: int = tar.offset
    while counted.read(_BLOCK_BYTES):
        pass  # to the very end, where the compressor's own checksum is compared
    _refuse_no_end(counted, end_of_members)


def _refuse_no_end(counted: _Counted, end_of_members: int) -> None:
    """Python takes any header that it cannot read for the end. The end is two blocks of zeros or more, and no more."""
    if counted.end_of_content > end_of_members:
        raise tarfile.TarError(f"at byte {end_of_members} is neither a file's header nor the end")
    if counted.num_bytes < end_of_members + _END_BYTES:
        raise tarfile.TarError(f"it is cut short at byte {counted.num_bytes}, where no mark says that it ends")


def _refuse_unsafe(member: tarfile.TarInfo, extraction: Extraction) -> None:
    extraction.check_name(member.name)
    if not (member.isdir() or member.issym() or member.islnk() or member.isfile()):
        raise extraction.refuse(member.name, "neither a file, a folder nor a link; devices and pipes are not made")
    if _data_filter is None:
        return
    try:
        _data_filter(member, str(extraction.folder))
    except tarfile.TarError as error:
        words = _FILTER_WORDS.get(type(error).__name__, "Python's filter for data refuses it")
        raise extraction.refuse(member.name, words) from error


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, extraction: Extraction) -> None:
    if member.isdir():
        extraction.add_folder(member.name)
    elif member.issym():
        extraction.add_link(member.name, member.linkname)
    elif member.islnk():
        extraction.add_hard_link(member.name, member.linkname)
    elif (source := tar.extractfile(member)) is not None:
        extraction.add_file(member.name, member.size, source)
