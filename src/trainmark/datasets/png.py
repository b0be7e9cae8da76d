"""Decodes PNG bytes to pixels or label numbers, exactly, or raises an error that says what is wrong.

Uses Pillow, which is as fast as OpenCV here (67 ms for a photo of 2048 x 1024 and 3.3 MB on one core of a virtual AMD
EPYC), says why it fails, and prints nothing. It does not verify the checksums of the pixels, so we do, in 1 ms.
See docs/decisions/0008-image-headers-are-ours.md.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainmark.datasets.jpeg import MAX_PIXELS
from trainmark.datasets.report import FaultKind

Pixels = npt.NDArray[np.uint8]

HEADER_BYTES = 33
"""The signature and the header chunk."""
END_CHUNK = b"\x00\x00\x00\x00IEND\xaeB\x60\x82"

_INTERLACE_AT = 28
"""The byte that is not 0 if rows are not in their order."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _PALETTE = 0, 3
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
    _verify_chunks(data)
    if num_rows is not None and num_rows < header.height:
        data = _with_height(data, num_rows)
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            image.load()
            return header, image
    except Exception as error:  # Pillow raises many types on damaged data; one bad file must not stop a run
        raise PngError(FaultKind.CORRUPT, str(error)) from error


def _with_height(data: bytes, height: int) -> bytes:
    """A file of its first rows: decoders stop behind the last one, and leave the rest of the pixels compressed."""
    if data[_INTERLACE_AT]:
        return data
    header = data[12:20] + height.to_bytes(4) + data[24:29]
    return data[:12] + header + zlib.crc32(header).to_bytes(4) + data[HEADER_BYTES:]


def _verify_chunks(data: bytes) -> None:
    view, at = memoryview(data), len(_SIGNATURE)
    while at + 12 <= len(data):
        length = int.from_bytes(view[at : at + 4])
        kind, end = bytes(view[at + 4 : at + 8]), at + 8 + length
        if end + 4 > len(data):
            break
        if zlib.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4]):
            raise PngError(FaultKind.CORRUPT, f"wrong checksum of chunk {kind!r}"[:80])
        if kind == b"IEND":
            return
        at = end + 4
    raise PngError(FaultKind.TRUNCATED, "truncated")
