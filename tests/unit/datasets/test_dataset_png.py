"""PNGs are inflated by ISA-L and decoded by Pillow: the same pixels as by Pillow alone, for every kind of file."""

from __future__ import annotations

import io
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainmark.datasets import png
from trainmark.datasets.png import PngError, decode_numbers, decode_rgb
from trainmark.datasets.report import FaultKind

RNG = np.random.default_rng(0)
_MANY = 64 << 20
"""Bytes."""


def make_smooth(height: int, width: int) -> np.ndarray:
    """Like a photo, so that the encoder chooses different filters for its rows."""
    coarse = Image.fromarray(RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize((width, height))
    return np.asarray(coarse) + RNG.integers(0, 9, (height, width, 3), dtype=np.uint8)


def encode(pixels: np.ndarray, mode: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, format="PNG", **options)
    return file.getvalue()


@pytest.fixture(params=["ISA-L", "Pillow"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Pillow":
        monkeypatch.setattr(png, "isal_zlib", None)
    else:
        pytest.importorskip("isal")


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "1"])
@pytest.mark.parametrize("num_rows", [None, 1, 37, 300, 9999])
@pytest.mark.parametrize("size", [(300, 517), (1, 1)])
def test_the_pixels_are_those_of_pillow(mode: str, num_rows: int | None, size: tuple[int, int]) -> None:
    data = encode(make_smooth(*size), mode)
    whole = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA").convert("RGB"))
    np.testing.assert_array_equal(decode_rgb(data, num_rows)[0], whole[:num_rows])


def test_all_five_filters_of_rows_are_undone() -> None:
    """Any bytes behind the number of a filter are some image."""
    rows = RNG.integers(0, 256, (50, 1 + 3 * 40), dtype=np.uint8)
    rows[:, 0] = np.arange(50) % 5
    data = rewrite_pixels(encode(make_smooth(50, 40), "RGB"), lambda _: zlib.compress(rows.tobytes()))
    np.testing.assert_array_equal(decode_rgb(data)[0], np.asarray(Image.open(io.BytesIO(data))))


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palettes_of_few_colours_with_transparency(bits: int) -> None:
    numbers = RNG.integers(0, 2**bits, (33, 21)).astype(np.uint8)
    palette = Image.fromarray(numbers)
    palette.putpalette(RNG.integers(0, 256, 3 * 2**bits).tolist())
    file = io.BytesIO()
    palette.save(file, format="PNG", bits=bits, transparency=0)
    np.testing.assert_array_equal(decode_numbers(file.getvalue(), 20)[0], numbers[:20])


@pytest.mark.usefixtures("_either")
def test_colours_of_sixteen_bits() -> None:
    rows = RNG.integers(0, 256, (8, 1 + 6 * 5), dtype=np.uint8)
    rows[:, 0] = 0
    header = (5).to_bytes(4) + (8).to_bytes(4) + bytes([16, 2, 0, 0, 0])
    pixels = make_chunk(b"IDAT", zlib.compress(rows.tobytes()))
    data = b"\x89PNG\r\n\x1a\n" + make_chunk(b"IHDR", header) + pixels + png.END_CHUNK
    high = rows[:, 1:].reshape(8, 5, 3, 2)[..., 0]
    np.testing.assert_array_equal(decode_rgb(data, 6)[0], high[:6])


def test_numbers_of_sixteen_bits_and_of_a_palette() -> None:
    labels = RNG.integers(0, 34, (40, 60)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(labels.astype(np.uint16)).save(file, format="PNG")
    np.testing.assert_array_equal(decode_numbers(file.getvalue(), 20)[0], labels[:20])
    palette = Image.fromarray(labels)
    palette.putpalette(list(range(256)) * 3)
    file = io.BytesIO()
    palette.save(file, format="PNG")
    np.testing.assert_array_equal(decode_numbers(file.getvalue(), 20)[0], labels[:20])


def rewrite_pixels(data: bytes, change: Any) -> bytes:
    """With another compressed stream and its right checksum."""
    at = data.index(b"IDAT")
    end = at + 4 + int.from_bytes(data[at - 4 : at])
    return data[: at - 4] + make_chunk(b"IDAT", change(data[at + 4 : end])) + data[end + 4 :]


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize(
    "change",
    [
        lambda stream: stream[: len(stream) // 2],
        lambda stream: stream[:100] + bytes(200) + stream[300:],
        lambda stream: b"not a stream of zlib at all",
        lambda stream: b"",
        lambda stream: zlib.compress(bytes(10)),
    ],
)
def test_damaged_pixels_are_an_error(change: Any) -> None:
    data = rewrite_pixels(encode(make_smooth(120, 160), "RGB"), change)
    with pytest.raises(PngError) as caught:
        decode_rgb(data)
    assert caught.value.kind is FaultKind.CORRUPT
    assert caught.value.problem


@pytest.mark.usefixtures("_either")
def test_a_long_stream_is_not_inflated_beyond_its_image() -> None:
    data = rewrite_pixels(encode(make_smooth(30, 40), "RGB"), lambda _: zlib.compress(bytes(_MANY)))
    with few_bytes():
        assert not decode_rgb(data)[0].any()


@pytest.mark.usefixtures("_either")
def test_a_kind_that_does_not_exist_claims_no_memory() -> None:
    """255 bits in each of four channels would be 127 bytes for a pixel."""
    data = rewrite_pixels(encode(make_smooth(700, 700), "RGB"), lambda _: zlib.compress(bytes(_MANY)))
    header = data[12:24] + bytes([255, 6]) + data[26:29]
    with few_bytes(), pytest.raises(PngError):
        decode_rgb(data[:12] + header + zlib.crc32(header).to_bytes(4) + data[33:])


@pytest.mark.usefixtures("_either")
def test_pixels_in_two_places_are_an_error() -> None:
    data = encode(make_smooth(120, 160), "RGB")
    at = data.index(b"IDAT") - 4
    end = data.index(b"IEND") - 4
    stream = data[at + 8 : end - 4]
    note = make_chunk(b"tEXt", b"a\0b")
    halves = [make_chunk(b"IDAT", half) for half in (stream[:500], stream[500:])]
    np.testing.assert_array_equal(decode_rgb(data[:at] + b"".join(halves) + data[end:])[0], decode_rgb(data)[0])
    with pytest.raises(PngError):
        decode_rgb(data[:at] + note.join(halves) + data[end:])


def make_chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)


@contextmanager
def few_bytes() -> Iterator[None]:
    """Python must not allocate an eighth of what the stream holds."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < _MANY / 8
    finally:
        tracemalloc.stop()
