"""Decodes PNG bytes to pixels or label numbers, exactly, or raises an error that says what is wrong.

Uses Pillow, which says why it fails and prints nothing, but spends most of its time in inflating: of 41 ms for a photo
of 2048 x 1024 and 3.1 MB on one core of a virtual AMD EPYC, 31. ISA-L inflates it in 11 ms, so Pillow is given the same
file with its pixels stored uncompressed. Pillow does not verify the checksums of the pixels either, so we do, in 1 ms.
See docs/decisions/0008-image-headers-are-ours.md.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainmark.datasets.jpeg import MAX_PIXELS
from trainmark.datasets.report import FaultKind

try:
    from isal import isal_zlib as deflate
except ImportError:  # no framework is installed, or there is no wheel for this processor
    import zlib as deflate  # type: ignore[no-redef]

Pixels = npt.NDArray[np.uint8]

HEADER_BYTES = 33
"""The signature and the header chunk."""
END_CHUNK = b"\x00\x00\x00\x00IEND\xaeB\x60\x82"

_MAX_STORED = 0xFFFF
"""Bytes of an uncompressed block in a zlib stream."""
_INTERLACE_AT = 28
"""The byte that is not 0 if rows are not in their order."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _PALETTE = 0, 3
_NUM_CHANNELS = {_GREY: 1, 2: 3, _PALETTE: 1, 4: 2, 6: 4}
_KINDS = {_GREY: "grey", 2: "colour", _PALETTE: "palette", 4: "grey with transparency", 6: "colour with transparency"}


class PngError(Exception):
    def __init__(self, kind: FaultKind, problem: str) -> None:
        super().__init__(problem)
        self.kind, self.problem = kind, problem


@dataclass(frozen=True, kw_only=True)
class Header:
    height: int
    width: int
    bit_depth: int
    colour_type: int

    def pixel_bytes(self, num_rows: int) -> int:
        """Of so many rows before they are compressed. Each begins with the number of its filter."""
        bits = self.width * self.bit_depth * _NUM_CHANNELS.get(self.colour_type, 1)
        return num_rows * (1 + -(-bits // 8))

    @property
    def words(self) -> str:
        """For example `16-bit colour`."""
        return f"{self.bit_depth}-bit {_KINDS.get(self.colour_type, f'type {self.colour_type}')}"


def read_header(data: bytes) -> Header:
    if not data:
        raise PngError(FaultKind.EMPTY_FILE, "zero bytes")
    if not data.startswith(_SIGNATURE):
        raise PngError(FaultKind.NOT_PNG, f"not a PNG (starts with {data[:4].hex(' ')})")
    if len(data) < HEADER_BYTES:
        raise PngError(FaultKind.TRUNCATED, "truncated in the header")
    if data[12:16] != b"IHDR":
        raise PngError(FaultKind.CORRUPT, "no header chunk")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if width == 0 or height == 0:
        raise PngError(FaultKind.CORRUPT, f"claims {width} x {height} pixels")
    if width * height > MAX_PIXELS:
        raise PngError(FaultKind.TOO_LARGE, f"claims {width} x {height} pixels; the limit is {MAX_PIXELS:,}")
    return Header(height=height, width=width, bit_depth=data[24], colour_type=data[25])


def decode_rgb(data: bytes, num_rows: int | None = None) -> tuple[Pixels, str | None]:
    """Pixels of height x width x 3, and what had to be converted, if anything. `num_rows`: only the first rows."""
    header, image = _decode(data, num_rows)
    problem = None if (header.bit_depth, image.mode) == (8, "RGB") else f"{header.words} instead of 8-bit colour"
    if header.colour_type == _GREY and header.bit_depth == 16:  # Pillow would clip these values instead of scaling them
        high = (np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)
        return np.repeat(high[:, :, None], 3, axis=2), problem
    # Through RGBA, because Pillow warns when it drops the transparency of a palette.
    return np.array(image if image.mode == "RGB" else image.convert("RGBA").convert("RGB")), problem


def decode_numbers(data: bytes, num_rows: int | None = None) -> tuple[Pixels, str | None]:
    """Label numbers of height x width, not brightness: palette indices, or plain values of 16 bits."""
    header, image = _decode(data, num_rows)
    if (header.colour_type, header.bit_depth) == (_GREY, 8):
        return np.array(image), None
    problem = f"{header.words} instead of 8-bit grey"
    if header.colour_type == _PALETTE:
        return np.array(image, dtype=np.uint8), problem
    if (header.colour_type, header.bit_depth) == (_GREY, 16):
        wide = np.asarray(image).astype(np.int64)
        if wide.max() <= 255:
            return wide.astype(np.uint8), problem
    raise PngError(FaultKind.MODE, f"{problem}: not label numbers")


def encode_png(pixels: Pixels, *, level: int) -> bytes:
    """Encodes to memory, because Pillow reports a full disk without its error number."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", compress_level=level)
    return buffer.getvalue()


def _decode(data: bytes, num_rows: int | None) -> tuple[Header, Image.Image]:
    header = read_header(data)
    chunks = _read_chunks(data)
    try:
        if not data[_INTERLACE_AT]:
            data = _inflated(data, chunks, header, min(num_rows or header.height, header.height))
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            image.load()
            return header, image
    except Exception as error:  # Pillow raises many types on damaged data; one bad file must not stop a run
        raise PngError(FaultKind.CORRUPT, str(error)) from error


def _inflated(data: bytes, chunks: list[Chunk], header: Header, num_rows: int) -> bytes:
    """The same file with its first rows only, stored uncompressed: the rest is not even inflated.

    A damaged file stays as it is, for Pillow to say what is wrong.
    """
    pixels = [chunk for chunk in chunks if chunk.kind == b"IDAT"]
    compressed = b"".join(data[chunk.begin : chunk.end] for chunk in pixels)
    num_bytes = header.pixel_bytes(num_rows)
    try:
        rows = memoryview(deflate.decompressobj().decompress(compressed, num_bytes))
    except deflate.error:  # type: ignore[misc]  # declared as an instance
        return data
    if len(rows) < num_bytes:
        return data
    stored: list[bytes | memoryview] = [b"\x78\x01"]
    for begin in range(0, len(rows), _MAX_STORED):
        part = rows[begin : begin + _MAX_STORED]
        stored += [struct.pack("<BHH", 0, len(part), len(part) ^ 0xFFFF), part]
    new_header = data[12:20] + num_rows.to_bytes(4) + data[24:29]
    before_pixels = data[HEADER_BYTES : pixels[0].begin - 8]
    parts = [data[:12], new_header, zlib.crc32(new_header).to_bytes(4), before_pixels]
    # Pillow asks for no checksum of the pixels, and stops behind the last row.
    return b"".join([*parts, sum(map(len, stored)).to_bytes(4), b"IDAT", *stored, bytes(4), END_CHUNK])


@dataclass(frozen=True, kw_only=True)
class Chunk:
    kind: bytes
    begin: int
    end: int
    """Of its content."""


def _read_chunks(data: bytes) -> list[Chunk]:
    """Raises if a checksum is wrong or the end is missing."""
    view, at = memoryview(data), len(_SIGNATURE)
    found: list[Chunk] = []
    while at + 12 <= len(data):
        length = int.from_bytes(view[at : at + 4])
        kind, end = bytes(view[at + 4 : at + 8]), at + 8 + length
        if end + 4 > len(data):
            break
        if deflate.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4]):
            raise PngError(FaultKind.CORRUPT, f"wrong checksum of chunk {kind!r}"[:80])
        if kind == b"IEND":
            return found
        found.append(Chunk(kind=kind, begin=at + 8, end=end))
        at = end + 4
    raise PngError(FaultKind.TRUNCATED, "truncated")
