"""Decodes PNG bytes to pixels or label numbers, exactly, or raises an error that says what is wrong.

Uses Pillow, which says why it fails and prints nothing, but inflates slowly. Where ISA-L is installed, it inflates, and
Pillow is given the same file with its pixels stored uncompressed. Pillow does not verify the checksums of the pixels,
so we do. See docs/decisions/0008-image-headers-are-ours.md, which has the times.
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
    from isal import isal_zlib
except ImportError:
    isal_zlib = None  # type: ignore[assignment]

Pixels = npt.NDArray[np.uint8]

HEADER_BYTES = 33
"""The signature and the header chunk."""
END_CHUNK = b"\x00\x00\x00\x00IEND\xaeB\x60\x82"

_MAX_STORED = 0xFFFF
"""Bytes of an uncompressed block in a zlib stream."""
_HEADER_LENGTH = (13).to_bytes(4)
_INTERLACE_AT = 28
"""The byte that is not 0 if rows are not in their order."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _PALETTE = 0, 3
_NUM_CHANNELS = {_GREY: 1, 2: 3, _PALETTE: 1, 4: 2, 6: 4}
_BIT_DEPTHS = {_GREY: (1, 2, 4, 8, 16), 2: (8, 16), _PALETTE: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""By colour type: others do not exist, and would let a small file claim much memory."""
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

    @property
    def row_bytes(self) -> int | None:
        """Of a row before it is compressed, with the number of its filter; None if there is no such kind of PNG."""
        if self.bit_depth not in _BIT_DEPTHS.get(self.colour_type, ()):
            return None
        return 1 + -(-self.width * self.bit_depth * _NUM_CHANNELS[self.colour_type] // 8)

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
    pixels = _find_pixels(data)
    height = header.height if num_rows is None else min(num_rows, header.height)
    if not data[_INTERLACE_AT] and data[8:12] == _HEADER_LENGTH:
        data = _with_stored(data, pixels, header, height) if pixels is not None else data
        data = _with_height(data, height) if height < header.height else data
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            image.load()
            return header, image
    except Exception as error:  # Pillow raises many types on damaged data; one bad file must not stop a run
        raise PngError(FaultKind.CORRUPT, str(error)) from error


def _with_height(data: bytes, height: int) -> bytes:
    """A file of its first rows: decoders stop after the last one, and leave the rest of the pixels compressed."""
    header = data[12:20] + height.to_bytes(4) + data[24:29]
    return data[:12] + header + zlib.crc32(header).to_bytes(4) + data[HEADER_BYTES:]


def _with_stored(data: bytes, pixels: _Pixels, header: Header, num_rows: int) -> bytes:
    """The same file with its first rows stored uncompressed, the others left out.

    A file that is damaged stays as it is, for Pillow to say what is wrong.
    """
    if isal_zlib is None or header.row_bytes is None:
        return data
    num_bytes = num_rows * header.row_bytes
    try:
        rows = memoryview(isal_zlib.decompressobj().decompress(pixels.stream, num_bytes))
    except isal_zlib.error:  # type: ignore[misc]  # declared as an instance
        return data
    if len(rows) < num_bytes:
        return data
    parts: list[bytes | memoryview] = [b"IDAT\x78\x01"]
    for begin in range(0, num_bytes, _MAX_STORED):
        part = rows[begin : begin + _MAX_STORED]
        is_last = begin + _MAX_STORED >= num_bytes
        parts += [struct.pack("<BHH", is_last, len(part), len(part) ^ 0xFFFF), part]
    chunk = b"".join([*parts, isal_zlib.adler32(rows).to_bytes(4)])
    checksum = isal_zlib.crc32(chunk).to_bytes(4)
    return b"".join([data[: pixels.begin], (len(chunk) - 4).to_bytes(4), chunk, checksum, data[pixels.end :]])


@dataclass(frozen=True, kw_only=True)
class _Pixels:
    begin: int
    end: int
    """Of their chunks in the file."""
    stream: bytearray
    """What the chunks have in them, still compressed."""


def _find_pixels(data: bytes) -> _Pixels | None:
    """None if pixels are missing or in two places. Raises if the checksum of a chunk is wrong or the end is missing."""
    view, at = memoryview(data), len(_SIGNATURE)
    crc32 = zlib.crc32 if isal_zlib is None else isal_zlib.crc32
    begin, behind, stream, is_apart = 0, 0, bytearray(), False
    while at + 12 <= len(data):
        length = int.from_bytes(view[at : at + 4])
        kind, end = bytes(view[at + 4 : at + 8]), at + 8 + length
        if end + 4 > len(data):
            break
        if crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4]):
            raise PngError(FaultKind.CORRUPT, f"wrong checksum of chunk {kind!r}"[:80])
        if kind == b"IEND":
            return _Pixels(begin=begin, end=behind, stream=stream) if begin and not is_apart else None
        if kind == b"IDAT":
            is_apart = is_apart or bool(begin and behind != at)
            begin, behind = begin or at, end + 4
            stream += view[at + 8 : end]
        at = end + 4
    raise PngError(FaultKind.TRUNCATED, "truncated")
