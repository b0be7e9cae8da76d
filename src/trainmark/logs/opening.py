"""Read a file as blocks of plain bytes. gzip and UTF-16 are detected by content, not by file name."""

from __future__ import annotations

import codecs
import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20
"""Small enough to stay in a core's cache while it is hashed and searched."""
_GZIP = b"\x1f\x8b\x08"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LOOK_BYTES = 1 << 16
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_BINARY_SHARE = 0.3
"""Share of control characters above which a file is binary. A log may contain a few NULs."""


class LogFile:
    """Reads a file once. Afterwards its SHA-256 and whether it was complete are known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_bytes = 0
        self.is_damaged = False
        """The compressed data is truncated or corrupt; the blocks before that were returned."""
        self.is_binary = False
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """Blocks that may end within a line. A binary file gives none, but its digest covers the whole file."""
        with self.path.open("rb") as file:
            first = file.read(BLOCK_BYTES)
            raw = self._raw(first, file.read)
            plain = self._unzipped(raw) if first.startswith(_GZIP) else raw
            yield from self._text(plain)
            for _ in raw:  # read the rest, so that the digest covers the whole file
                pass

    def _raw(self, first: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
        block = first
        while block:
            self.num_bytes += len(block)
            self._digest.update(block)
            yield block
            block = read(BLOCK_BYTES)

    def _unzipped(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        """Decompress all members in bounded blocks, so that a small malicious file cannot fill the memory."""
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
