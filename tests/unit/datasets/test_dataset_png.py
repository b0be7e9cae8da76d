"""PNGs are inflated by ISA-L and decoded by Pillow: the same pixels as by Pillow alone, for every kind of file."""

from __future__ import annotations

import io
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainmark.datasets import png
from trainmark.datasets.png import PngError, decode_numbers, decode_rgb
from trainmark.datasets.report import FaultKind

RNG = np.random.default_rng(0)


def make_smooth(height: int, width: int, num_channels: int = 3) -> np.ndarray:
    """Like a photo, so that the encoder chooses different filters for its rows."""
    coarse = Image.fromarray(RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize((width, height))
    noisy = np.asarray(coarse) + RNG.integers(0, 9, (height, width, 3), dtype=np.uint8)
    return noisy[..., :num_channels] if num_channels > 1 else noisy[..., 0]


def encode(pixels: np.ndarray, mode: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, format="PNG", **options)
    return file.getvalue()


@pytest.fixture(params=["ISA-L", "zlib"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "zlib":
        monkeypatch.setattr(png, "deflate", zlib)
    else:
        assert png.deflate.__name__ == "isal.isal_zlib"


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
    chunk = b"IDAT" + change(data[at + 4 : end])
    return data[: at - 4] + (len(chunk) - 4).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4) + data[end + 4 :]


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
def test_a_stream_of_a_gigabyte_is_not_inflated_beyond_its_image() -> None:
    compressor = zlib.compressobj(9)
    bomb = b"".join(compressor.compress(bytes(1 << 24)) for _ in range(64)) + compressor.flush()
    data = rewrite_pixels(encode(make_smooth(30, 40), "RGB"), lambda _: bomb)
    assert not decode_rgb(data)[0].any()
