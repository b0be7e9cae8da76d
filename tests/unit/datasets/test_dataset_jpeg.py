from __future__ import annotations

import io
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from trainmark.datasets import jpeg
from trainmark.datasets.jpeg import decode_lenient, jpeg_size, read_frame
from trainmark.errors import DataError

Encode = Callable[..., bytes]


@pytest.fixture(params=["simplejpeg", "pillow"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to decode; without simplejpeg is how a machine looks that has only torchvision or paddle."""
    if request.param == "simplejpeg":
        pytest.importorskip("simplejpeg")
    else:
        monkeypatch.setattr(jpeg, "_simplejpeg", lambda: None)
    return str(request.param)


def reference(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_pixels_are_those_of_torchvisions_loader(decoder: str, encode: Encode, mode: str, progressive: bool) -> None:
    data = encode(mode, quality=90, progressive=progressive)
    pixels, problem = decode_lenient(data)
    assert pixels is not None
    assert problem is None
    assert pixels.shape == (60, 80, 3)
    assert pixels.dtype == np.uint8
    assert pixels.flags.writeable
    np.testing.assert_allclose(pixels.astype(int), reference(data).astype(int), atol=2)


@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_every_subsampling_is_decoded(decoder: str, encode: Encode, subsampling: int) -> None:
    pixels, problem = decode_lenient(encode(subsampling=subsampling))
    assert pixels is not None
    assert (pixels.shape, problem) == ((60, 80, 3), None)


def test_rare_subsampling_is_left_to_pillow(encode: Encode) -> None:
    data = bytearray(encode(subsampling=0))
    frame = read_frame(bytes(data))
    assert frame is not None
    data[frame.end - 3 * 3 + 1] = 0x31  # three samples across: legal, and unknown to the fast interface
    pixels, problem = decode_lenient(bytes(data))
    assert pixels is not None
    assert problem is None


@pytest.mark.parametrize("progressive", [False, True])
def test_truncated_file_gives_what_is_there(decoder: str, encode: Encode, progressive: bool) -> None:
    whole = encode(quality=90, progressive=progressive)
    data = whole[: len(whole) * 3 // 4]
    pixels, problem = decode_lenient(data)
    assert pixels is not None
    assert problem
    np.testing.assert_allclose(
        pixels[:16].astype(int), reference(whole)[:16].astype(int), atol=40 if progressive else 2
    )


def test_missing_rows_are_grey_as_with_pillows_global(encode: Encode, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(quality=90)[:-800]
    pixels, _ = decode_lenient(data)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    np.testing.assert_array_equal(pixels, reference(data))


def test_the_global_stays_off_for_other_threads(decoder: str, encode: Encode) -> None:
    data = encode(quality=90)[:-800]
    seen = []

    def work() -> None:
        for _ in range(20):
            pixels, problem = decode_lenient(data)
            seen.append((pixels is not None, bool(problem), ImageFile.LOAD_TRUNCATED_IMAGES))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {(True, True, False)}


def test_good_file_has_no_problem(decoder: str, encode: Encode) -> None:
    pixels, problem = decode_lenient(encode())
    assert pixels is not None
    assert problem is None


def test_damage_in_the_middle_is_told_and_survived(encode: Encode) -> None:
    pytest.importorskip("simplejpeg")
    data = bytearray(encode(quality=95))
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    pixels, problem = decode_lenient(bytes(data))
    assert pixels is not None
    assert problem
    assert "orrupt" in problem


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff", b"GIF89a", bytes(1000), b"\xff" * 1000])
def test_what_is_no_jpeg_gives_nothing_and_a_reason(decoder: str, data: bytes) -> None:
    assert jpeg_size(data) is None
    pixels, problem = decode_lenient(data)
    assert pixels is None
    assert problem


def test_png_under_a_jpegs_name_is_decoded_with_a_remark(encode: Encode, photo: Image.Image) -> None:
    pixels, problem = decode_lenient(encode(file_format="PNG"))
    np.testing.assert_array_equal(pixels, np.asarray(photo))
    assert problem == "not a JPEG but a PNG"


def test_claim_of_too_many_pixels_is_not_believed(decoder: str, encode: Encode) -> None:
    data = bytearray(encode())
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    pixels, problem = decode_lenient(bytes(data))
    assert pixels is None
    assert problem
    assert "65535 x 65535" in problem


def test_png_of_too_many_pixels_is_not_believed(encode: Encode) -> None:
    data = bytearray(encode(file_format="PNG"))
    data[16:24] = b"\x00\x00\xff\xff\x00\x00\xff\xff"
    assert decode_lenient(bytes(data)) == (None, "not a JPEG but a PNG")


def test_size_comes_from_the_header(encode: Encode) -> None:
    data = encode(progressive=True)
    assert jpeg_size(data) == (60, 80)
    assert jpeg_size(data[:700]) == (60, 80)


def test_size_is_not_that_of_the_thumbnail(encode: Encode, photo: Image.Image) -> None:
    small = io.BytesIO()
    photo.resize((8, 6)).save(small, format="JPEG")
    thumbnail = small.getvalue()
    segment = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2) + thumbnail
    data = encode()
    assert jpeg_size(data[:2] + segment + data[2:]) == (60, 80)


@pytest.mark.parametrize("fill", [b"\xff\xff\xff", b"garbage", b"\xff\x00", b"\xff\xd0"])
def test_size_is_found_behind_fill_bytes(encode: Encode, fill: bytes) -> None:
    data = encode()
    assert jpeg_size(data[:2] + fill + data[2:]) == (60, 80)


def test_no_bytes_whatever_raise_anything(decoder: str, encode: Encode) -> None:
    dice = random.Random(0)
    whole = encode(quality=60)
    for _ in range(400):
        data = bytearray(whole[: dice.randrange(len(whole) + 1)])
        for _ in range(dice.randrange(8) if data else 0):
            data[dice.randrange(min(len(data), 700))] = dice.randrange(256)
        jpeg_size(bytes(data))
        for num_rows in (None, dice.randrange(1, 70)):
            pixels, problem = decode_lenient(bytes(data), num_rows=num_rows)
            assert pixels is not None or problem


def test_no_decoder_at_all_is_an_error_with_the_remedy(encode: Encode, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode()
    monkeypatch.setattr(jpeg, "_simplejpeg", lambda: None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    jpeg._pillow.cache_clear()
    with pytest.raises(DataError, match="no JPEG decoder") as caught:
        decode_lenient(data)
    assert "pip install" in caught.value.hint


def test_without_pillow_a_bad_image_is_still_only_a_bad_image(encode: Encode, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("simplejpeg")
    cmyk, truncated = encode("CMYK"), encode()[:-300]
    monkeypatch.setitem(sys.modules, "PIL", None)
    jpeg._pillow.cache_clear()
    assert decode_lenient(cmyk)[0] is None
    assert decode_lenient(truncated)[0] is not None


# -- only the rows at the top ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True},
                                     {"subsampling": 2, "restart_marker_rows": 1}])  # fmt: skip
def test_rows_at_the_top_are_those_of_the_whole(encode: Encode, mode: str, options: dict[str, Any]) -> None:
    data = encode(mode, quality=90, **options)
    whole, _ = decode_lenient(data)
    assert whole is not None
    scratch = np.empty(100_000, dtype=np.uint8)
    for num_rows in range(1, 70):
        for into in (None, scratch):
            pixels, problem = decode_lenient(data, into=into, num_rows=num_rows)
            assert pixels is not None
            assert problem is None
            assert min(num_rows, 60) <= len(pixels) <= 60
            np.testing.assert_array_equal(pixels[:num_rows], whole[:num_rows])


def test_rows_below_are_left_out_where_that_is_quicker(encode: Encode) -> None:
    pytest.importorskip("simplejpeg")
    pixels, _ = decode_lenient(encode(quality=90), num_rows=10)
    assert pixels is not None
    assert pixels.shape == (32, 80, 3)


def test_an_end_above_is_told_and_damage_below_is_not_looked_at(encode: Encode) -> None:
    """Bytes that go wrong and still make rows are seen by what is left over at the end, which is not looked at."""
    pytest.importorskip("simplejpeg")
    sound = encode(quality=95)
    begin = sound.index(b"\xff\xda") + 14
    above, below = bytearray(sound), bytearray(sound)
    above[begin + 100 : begin + 102] = jpeg.END_OF_IMAGE
    below[-300:-100] = bytes(200)
    for damaged, is_seen in ((above, True), (below, False)):
        _, problem = decode_lenient(bytes(damaged), num_rows=10)
        assert problem == (decode_lenient(bytes(damaged))[1] if is_seen else None)
        assert (problem is not None) is is_seen
        assert decode_lenient(bytes(damaged), num_rows=60)[1] is not None


def test_a_file_cut_short_is_told_whatever_rows_are_wanted(decoder: str, encode: Encode) -> None:
    data = encode(quality=90)
    for end in (len(data) * 9 // 10, len(data) * 3 // 4):
        pixels, problem = decode_lenient(data[:end], num_rows=10)
        assert pixels is not None
        assert problem
