"""Decodes JPEG bytes with the fastest installed decoder; one bad file never stops a run.

Measured on one core of a virtual AMD EPYC (Zen 3) shared with other work: processor time to RGB for 64 generated images
of 500x375 on average and 100 KB; median and best of nine rounds. All three give exactly the same pixels.

    simplejpeg 1.9        1.56 ms  640/s    best 1.35 ms  740/s
    torchvision.io 0.29   1.67 ms  600/s    best 1.39 ms  720/s
    Pillow 13.0           2.18 ms  460/s    best 1.77 ms  560/s

So simplejpeg is used if it is installed, otherwise Pillow; torchvision.io is as fast, but would import a framework.
simplejpeg releases the GIL: two threads decode 1.7 times as many images on two cores. Why headers are parsed here:
docs/decisions/0008-image-headers-are-ours.md.
"""

from __future__ import annotations

import importlib.util
import io
import re
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
import numpy.typing as npt

from trainmark.errors import DataError
from trainmark.frameworks import required_extra

Pixels = npt.NDArray[np.uint8]

END_OF_IMAGE = b"\xff\xd9"
MAX_PIXELS = 2**26  # a header may claim 65535 x 65535, which is 12 GB of pixels from a file of 200 bytes

_PNG = b"\x89PNG"
_START_OF_IMAGE = b"\xff\xd8"
_STANDALONE = frozenset((0x01, *range(0xD0, 0xD8)))  # markers without a length
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # these three have another meaning
_SEQUENTIAL = (0xC0, 0xC1)
_PIXELS_BEGIN = (0xDA, 0xD9)
_ROWS_AT_ONCE = 16  # rows that the decoder processes at once when colour is subsampled
_ROWS_MIXED = 8  # more rows than colour smoothing reads below
_MORE_BELOW = re.compile(r"\d+ extraneous bytes before marker 0xd9$")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The frame header of a JPEG file."""

    height: int
    width: int
    num_components: int
    """1 grey, 3 colour, 4 CMYK."""

    is_sequential: bool
    """Coded in one pass from top to bottom, unlike a progressive JPEG."""

    height_at: int
    """Offset of the two bytes of the height."""

    end: int
    """Offset of the first byte after the frame header."""


def read_frame(data: bytes) -> Frame | None:
    """Parses the markers up to the frame header; None if there is none. Accepts any bytes."""
    if data[:2] != _START_OF_IMAGE:
        return None
    at = 2
    while (at := data.find(b"\xff", at)) >= 0:
        while data[at : at + 1] == b"\xff":  # a marker may follow any number of fill bytes
            at += 1
        if at + 3 > len(data) or data[at] in _PIXELS_BEGIN:
            return None
        if data[at] in _STANDALONE or data[at] == 0:
            at += 1
            continue
        end = at + 1 + int.from_bytes(data[at + 1 : at + 3])
        if data[at] in _FRAMES:
            return _parse_frame(data, at + 3, end, is_sequential=data[at] in _SEQUENTIAL)
        at = max(end, at + 3)
    return None


def _parse_frame(data: bytes, begin: int, end: int, *, is_sequential: bool) -> Frame | None:
    body = data[begin:end]
    if len(body) < 6:
        return None
    height, width = int.from_bytes(body[1:3]), int.from_bytes(body[3:5])
    if height == 0 or width == 0:
        return None
    return Frame(
        height=height,
        width=width,
        num_components=body[5],
        is_sequential=is_sequential,
        height_at=begin + 1,
        end=end,
    )


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """(height, width) from the header alone; None if it is not a JPEG."""
    frame = read_frame(data)
    return None if frame is None else (frame.height, frame.width)


def decode_lenient(
    data: bytes, *, frame: Frame | None = None, into: Pixels | None = None, num_rows: int | None = None
) -> tuple[Pixels | None, str | None]:
    """Returns all pixels that can be decoded, and what is wrong with the file, if anything. `frame` is its header.

    The pixels may be stored in `into` if that is large enough: new memory for each image costs page faults. If only the
    first `num_rows` are wanted, the rows below may be missing, and faults near the end of the file are not found.

    The missing part of a truncated file is grey, as with Pillow's LOAD_TRUNCATED_IMAGES. That setting is
    process-wide, so we append an end marker instead, which gives the same result with the same decoder. A PNG
    with the name of a JPEG is decoded too, because ImageNet contains one.
    """
    frame = frame or read_frame(data)
    top = None if frame is None or num_rows is None else _decode_top(data, frame, num_rows, into)
    if top is not None:
        return top, None
    try:
        return _decode_whole(data, frame, into), None
    except ValueError as error:
        problem = str(error)
    for decode in (_decode_fast_lenient, _decode_with_pillow):
        try:
            return decode(data + END_OF_IMAGE), problem
        except ValueError:
            continue
    return None, problem


def encode_jpeg(pixels: Pixels, *, quality: int) -> bytes:
    """Always uses Pillow, although simplejpeg can encode too: the bytes must not depend on what is installed.

    Encodes to memory, because Pillow reports a full disk as "encoder error" without its error number.
    """
    buffer = io.BytesIO()
    _pillow().fromarray(pixels).save(buffer, format="JPEG", quality=quality)
    return buffer.getvalue()


def require_encoder() -> None:
    """Raises DataError if Pillow is missing; called before the first image is drawn."""
    if importlib.util.find_spec("PIL") is None:
        raise DataError(
            "cannot make images",
            why="Pillow is not installed",
            hint=f"pip install {required_extra('torch')}, or pip install pillow",
        )


def require_drawing() -> None:
    """The same for what is drawn with OpenCV."""
    require_encoder()
    if importlib.util.find_spec("cv2") is None:
        raise DataError(
            "cannot draw these images",
            why="OpenCV is not installed",
            hint=f"pip install {required_extra('torch')}, or pip install opencv-python-headless",
        )


def _decode_whole(data: bytes, frame: Frame | None, into: Pixels | None) -> Pixels:
    """Decodes exactly, or raises ValueError that says what is wrong."""
    if frame is None:
        raise ValueError(why_not_jpeg(data))
    _refuse_bomb(frame.height, frame.width)
    fast = _simplejpeg()
    # Pillow handles CMYK, which Adobe writes inverted; the result is the same as with torchvision's loader.
    if fast is None or frame.num_components not in (1, 3):
        return _decode_with_pillow(data)
    try:
        buffer = into if into is not None and into.size >= frame.height * frame.width * 3 else None
        pixels: Pixels = fast.decode_jpeg(data, colorspace="RGB", buffer=buffer)
    except ValueError as error:
        if "subsampling" not in str(error):
            raise
        return _decode_with_pillow(data)  # valid but rare subsampling that simplejpeg does not support
    return pixels


def _decode_top(data: bytes, frame: Frame, num_rows: int, into: Pixels | None) -> Pixels | None:
    """At least `num_rows` rows, exactly as in the whole image; None if decoding the whole is needed or as fast.

    simplejpeg has no option to stop early, but it stops if the header states fewer rows. It then warns about the extra
    data below; it keeps only the first warning of a file, so this one means that nothing was wrong before.
    """
    fast = _simplejpeg()
    if fast is None or not frame.is_sequential or frame.num_components not in (1, 3):
        return None
    height = -(-(num_rows + _ROWS_MIXED) // _ROWS_AT_ONCE) * _ROWS_AT_ONCE
    if height >= frame.height or frame.height * frame.width > MAX_PIXELS:
        return None
    num_bytes = height * frame.width * 3
    buffer = into if into is not None and into.size >= num_bytes else np.empty(num_bytes, dtype=np.uint8)
    claimed = data[: frame.height_at] + height.to_bytes(2) + data[frame.height_at + 2 :]
    try:
        fast.decode_jpeg(claimed, colorspace="RGB", buffer=buffer)
    except ValueError as error:
        if not _MORE_BELOW.search(str(error)):
            return None
    return buffer.reshape(-1)[:num_bytes].reshape(height, frame.width, 3)


def _decode_fast_lenient(data: bytes) -> Pixels:
    frame, fast = read_frame(data), _simplejpeg()
    if fast is None or frame is None or frame.num_components not in (1, 3):
        raise ValueError("simplejpeg cannot decode this")
    _refuse_bomb(frame.height, frame.width)
    pixels: Pixels = fast.decode_jpeg(data, colorspace="RGB", strict=False)
    return pixels


def _decode_with_pillow(data: bytes) -> Pixels:
    image_module = _pillow()
    if data.startswith(_PNG):
        _refuse_bomb(int.from_bytes(data[20:24]), int.from_bytes(data[16:20]))
    elif (frame := read_frame(data)) is not None:
        _refuse_bomb(frame.height, frame.width)
    try:
        with image_module.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            # A copy, because Pillow's memory is read-only and torch warns about that for every image.
            return np.array(image.convert("RGB"))
    except Exception as error:  # Pillow raises many types on damaged data; one bad file must not stop a run
        raise ValueError(str(error)) from error


def _refuse_bomb(height: int, width: int) -> None:
    if height * width > MAX_PIXELS:
        raise ValueError(f"claims {width} x {height} pixels; the limit is {MAX_PIXELS:,}")


def why_not_jpeg(data: bytes) -> str:
    if not data:
        return "the file is empty"
    if data.startswith(_PNG):
        return "not a JPEG but a PNG"
    if data.startswith(_START_OF_IMAGE):
        return "truncated or damaged before the frame header"
    return f"not a JPEG (starts with {data[:4].hex(' ')})"


@cache
def _simplejpeg() -> ModuleType | None:
    try:
        import simplejpeg
    except ImportError:
        return None
    module: ModuleType = simplejpeg
    return module


@cache
def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        if _simplejpeg() is not None:  # most images still decode: the fault is this one's
            raise ValueError("needs Pillow, which is not installed") from error
        raise DataError(
            "no JPEG decoder is installed",
            why="neither simplejpeg nor Pillow can be imported",
            hint=f"pip install {required_extra('torch')}, or pip install pillow simplejpeg",
        ) from error
    return Image
