"""Read a file as blocks of plain bytes. gzip and UTF-16 are detected by content, not by file name."""

from __future__ import annotations

import codecs
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20
"""Small enough to stay in a core's cache while it is hashed and searched."""
_GZIP = b"\x1f\x8b\x08"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LOOK_BYTES = 1 << 16
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_DOCUMENTS = (
    ("an HTML page", re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html)\b", re.IGNORECASE)),
    (
        "a Markdown report of trainmark",
        re.compile("\\s*# (?:Training speed|训练速度)\\s{2,4}(?:made|生成于) [^\n]{1,60}\\btrainmark ".encode()),
    ),
)
"""Texts that quote speeds, but are no logs, by how they begin."""
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
        self.document: str | None = None
        """What the file is, if it is a page or a report instead of a log. Like a binary file, it gives no blocks."""
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """Blocks that may end within a line. A file that is no log gives none, but its digest covers the whole file."""
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
            is_start = is_first and bool(block)
            is_first = is_first and not is_start
            if is_start:
                encoding = _UTF16.get(block[:2])
                decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
                if encoding is None and _is_binary(block[:_LOOK_BYTES]):
                    self.is_binary = True
                    return
            text = decoder.decode(block).encode(errors="replace") if decoder else block
            if is_start:
                self.document = next((name for name, start in _DOCUMENTS if start.match(text)), None)
                if self.document is not None:
                    return
            yield text


def _is_binary(part: bytes) -> bool:
    return len(part) - len(part.translate(None, _CONTROL)) > _BINARY_SHARE * len(part)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
