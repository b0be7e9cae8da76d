"""A file as blocks of plain bytes: gzip is seen by its magic bytes, UTF-16 by its mark, and neither by a name."""

from __future__ import annotations

import codecs
import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20
"""Small enough to stay in the cache of a core while it is hashed and searched for several literals."""
_GZIP = b"\x1f\x8b\x08"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LOOK_BYTES = 1 << 16
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_BINARY_SHARE = 0.3
"""Of control characters in the first part; a log may hold some NULs, a checkpoint or an archive is full of them."""


class LogFile:
    """Reads a file once; knows its SHA-256 and whether it was whole when the blocks are through."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_bytes = 0
        self.is_damaged = False
        """The compressed data end too early or are broken; the blocks up to there were given."""
        self.is_binary = False
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """Blocks that may end anywhere. A file of another kind gives none, but its digest is whole all the same."""
        with self.path.open("rb") as file:
            first = file.read(BLOCK_BYTES)
            raw = self._raw(first, file.read)
            plain = self._unzipped(raw) if first.startswith(_GZIP) else raw
            yield from self._text(plain)
            for _ in raw:  # the digest is that of the whole file
                pass

    def _raw(self, first: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
        block = first
        while block:
            self.num_bytes += len(block)
            self._digest.update(block)
            yield block
            block = read(BLOCK_BYTES)

    def _unzipped(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        """Members one after another, each part bounded: a small file of zeros must not fill the memory."""
        inflate = zlib.decompressobj(wbits=31)
        is_open = False
        try:
            for block in raw:
                data = block
                while data:
                    is_open = True
                    yield inflate.decompress(data, BLOCK_BYTES)
                    data = inflate.unconsumed_tail
                    if inflate.eof:
                        data, is_open = inflate.unused_data.lstrip(b"\x00"), False
                        inflate = zlib.decompressobj(wbits=31)
        except zlib.error:
            is_open = True
        self.is_damaged = is_open

    def _text(self, plain: Iterator[bytes]) -> Iterator[bytes]:
        decoder: codecs.IncrementalDecoder | None = None
        is_first = True
        for block in plain:
            if is_first and block:
                is_first = False
                encoding = _UTF16.get(block[:2])
                decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
                if encoding is None and _is_binary(block[:_LOOK_BYTES]):
                    self.is_binary = True
                    return
            yield decoder.decode(block).encode(errors="replace") if decoder else block


def _is_binary(part: bytes) -> bool:
    return len(part) - len(part.translate(None, _CONTROL)) > _BINARY_SHARE * len(part)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
