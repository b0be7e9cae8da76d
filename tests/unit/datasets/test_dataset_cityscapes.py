from __future__ import annotations

import hashlib
import io
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainmark.cli.main import main
from trainmark.datasets.cityscapes.check import check_folder
from trainmark.datasets.cityscapes.format import FORMAT
from trainmark.datasets.cityscapes.labels import CLASSES, ID_OF, IGNORED, NAMES, TRAIN_IDS
from trainmark.datasets.cityscapes.make import make_cityscapes
from trainmark.datasets.cityscapes.read import UnusablePairError, load_pair, read_cityscapes
from trainmark.datasets.cityscapes.scene import draw_street
from trainmark.datasets.png import PngError, decode_numbers, decode_rgb, encode_png, read_header
from trainmark.datasets.report import FaultKind
from trainmark.errors import DataError

TINY = (64, 128)
CITY = "train/ahornstadt"
STEM = f"{CITY}/ahornstadt_000000_000019"
IMAGE = f"leftImg8bit/{STEM}_leftImg8bit.png"
LABEL = f"gtFine/{STEM}_gtFine_labelIds.png"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cityscapes") / "made"
    make_cityscapes(root, num_images=15, num_workers=1, size=TINY)
    return root


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(made, tmp_path / "copy")


def saved(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


def grey(value: int, size: tuple[int, int] = TINY) -> np.ndarray:
    return np.full(size, value, np.uint8)


# -- labels ------------------------------------------------------------------------------------------------------------


def test_the_34_ids_and_the_19_that_are_trained() -> None:
    assert len(NAMES) == 34
    assert len(CLASSES) == 19
    trained = [7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33]
    assert TRAIN_IDS[trained].tolist() == list(range(19))
    assert (np.delete(TRAIN_IDS, trained) == IGNORED).all()
    assert (ID_OF["sky"], ID_OF["train"], ID_OF["bicycle"]) == (23, 31, 33)


# -- making ------------------------------------------------------------------------------------------------------------


def fingerprints(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_layout_counts_and_report(tmp_path: Path) -> None:
    report = make_cityscapes(tmp_path / "made", num_images=15, num_workers=1, size=TINY)
    assert (report.num_train, report.num_val, report.classes) == (12, 3, CLASSES)
    assert (tmp_path / "made" / IMAGE).is_file()
    assert (tmp_path / "made" / LABEL).is_file()
    checked = check_folder(tmp_path / "made", decode=True, num_workers=1)
    assert checked.ok
    assert checked.num_bytes == report.num_bytes
    assert [(split.name, split.num_samples) for split in checked.splits] == [("train", 12), ("val", 3)]
    summary = FORMAT.summarise(tmp_path / "made")
    assert (summary.num_train, summary.num_val, summary.num_classes) == (12, 3, 19)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_all_classes_and_some_void_are_there() -> None:
    counts = np.zeros(256, np.int64)
    for index in range(12):
        counts += np.bincount(draw_street(seed=0, split=0, index=index, size=(128, 256))[1].ravel(), minlength=256)
    shares = counts / counts.sum()
    assert all(shares[ID_OF[name]] > 0.005 for name in CLASSES), dict(zip(NAMES, shares, strict=False))
    assert shares[ID_OF["ego vehicle"]] > 0.01
    assert counts[ID_OF["out of roi"]] > 0
    assert counts[ID_OF["rail track"]] > 0


def test_labels_are_exact() -> None:
    """The picture's edges are the label's: within the sky colour is even, across its border it jumps."""
    picture, ids = draw_street(seed=0, split=0, index=0, size=(256, 512))
    green = picture[:, :, 1].astype(int)
    inside = (ids[:, 1:] == ID_OF["sky"]) & (ids[:, :-1] == ID_OF["sky"])
    across = (ids[:, 1:] == ID_OF["sky"]) != (ids[:, :-1] == ID_OF["sky"])
    jumps = np.abs(np.diff(green, axis=1))
    assert np.quantile(jumps[inside], 0.999) < 40
    assert np.median(jumps[across]) > 40


def test_bytes_do_not_depend_on_the_number_of_workers(made: Path, tmp_path: Path) -> None:
    make_cityscapes(tmp_path / "two", num_images=15, num_workers=2, size=TINY)
    assert fingerprints(tmp_path / "two") == fingerprints(made)


def test_a_larger_set_holds_the_smaller_and_another_seed_other_images(made: Path, tmp_path: Path) -> None:
    make_cityscapes(tmp_path / "large", num_images=30, num_workers=1, size=TINY)
    make_cityscapes(tmp_path / "other", num_images=15, num_workers=1, size=TINY, seed=1)
    small = fingerprints(made)
    assert small.items() <= fingerprints(tmp_path / "large").items()
    assert len(set(small.values())) == len(small), "no image is there twice, in either split"
    assert not set(small.values()) & set(fingerprints(tmp_path / "other").values())


def test_no_validation_part_and_fewer_images_than_cities(tmp_path: Path) -> None:
    make_cityscapes(tmp_path / "made", num_images=2, val_fraction=0, num_workers=1, size=TINY)
    read = read_cityscapes(tmp_path / "made")
    assert (len(read.train), len(read.val)) == (2, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_images": 2}, "2 images are too few"),
        ({"num_images": 0}, "too few"),
        ({"num_images": -5}, "too few"),
        ({"val_fraction": 1.0}, "--val-fraction: must be"),
        ({"val_fraction": float("nan")}, "--val-fraction: must be"),
        ({"seed": -1}, "--seed: must be"),
        ({"size": (8, 8)}, "8 x 8"),
        ({"num_workers": 0}, "--workers: must be"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, int], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        make_cityscapes(tmp_path / "made", **{"num_images": 100, **wrong})
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


# -- faults of the layout: refused before a run, all named ------------------------------------------------------------


def faults_of(root: Path, *, decode: bool = True) -> dict[str, FaultKind]:
    return {fault.path: fault.kind for fault in check_folder(root, decode=decode, num_workers=1).faults}


def test_a_missing_label_and_a_missing_image_are_named(folder: Path) -> None:
    (folder / LABEL).unlink()
    other = sorted((folder / "leftImg8bit/val").rglob("*.png"))[0]
    other.unlink()
    label = (
        other.relative_to(folder)
        .as_posix()
        .replace("leftImg8bit", "gtFine", 1)
        .replace("_leftImg8bit", "_gtFine_labelIds")
    )
    assert faults_of(folder) == {IMAGE: FaultKind.MISSING_LABEL, label: FaultKind.MISSING_IMAGE}
    with pytest.raises(DataError) as caught:
        FORMAT.summarise(folder)
    assert IMAGE in caught.value.why
    assert label in caught.value.why
    assert "gtFine again" in caught.value.hint


def test_empty_city_and_split_without_cities(folder: Path) -> None:
    (folder / "leftImg8bit/train/zweibruck").mkdir()
    shutil.rmtree(folder / "leftImg8bit/val")
    (folder / "leftImg8bit/val").mkdir()
    found = faults_of(folder)
    assert found["leftImg8bit/train/zweibruck"] is FaultKind.EMPTY_CITY
    assert found["leftImg8bit/val"] is FaultKind.NO_CITIES
    with pytest.raises(DataError, match="zweibruck"):
        read_cityscapes(folder)


def test_many_missing_files_are_counted_not_listed(folder: Path) -> None:
    for path in (folder / "gtFine/train").rglob("*.png"):
        path.unlink()
    with pytest.raises(DataError, match="and 2 more"):
        read_cityscapes(folder)


def test_what_is_no_cityscapes_folder(made: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="leftImg8bit/train and no gtFine/train"):
        FORMAT.summarise(made / "gtFine")
    with pytest.raises(DataError, match="not found"):
        FORMAT.summarise(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="not a folder"):
        FORMAT.summarise(tmp_path / "file")


def test_links_must_stay_inside(folder: Path, made: Path) -> None:
    (folder / IMAGE).unlink()
    (folder / IMAGE).symlink_to(made / IMAGE)
    (folder / "leftImg8bit/train/elsewhere").symlink_to(made / "leftImg8bit" / CITY)
    (folder / "leftImg8bit/train/ahornstadt/gone_000000_000019_leftImg8bit.png").symlink_to("nothing")
    kinds = faults_of(folder)
    assert kinds[IMAGE] is FaultKind.OUTSIDE
    assert kinds["leftImg8bit/train/elsewhere"] is FaultKind.OUTSIDE
    assert kinds["leftImg8bit/train/ahornstadt/gone_000000_000019_leftImg8bit.png"] is FaultKind.DANGLING
    with pytest.raises(DataError, match="outside"):
        read_cityscapes(folder)


def test_a_whole_half_may_not_lead_outside(folder: Path, made: Path) -> None:
    shutil.rmtree(folder / "gtFine")
    (folder / "gtFine").symlink_to(made / "gtFine")
    assert faults_of(folder)["gtFine/train"] is FaultKind.OUTSIDE


def test_a_link_inside_is_followed(folder: Path) -> None:
    (folder / "store").mkdir()
    (folder / IMAGE).rename(folder / "store/a.png")
    (folder / IMAGE).symlink_to(folder / "store/a.png")
    assert check_folder(folder, decode=True, num_workers=1).ok


def test_the_other_files_of_the_real_set_are_only_counted(folder: Path) -> None:
    for ending in ("color.png", "instanceIds.png", "polygons.json"):
        (folder / f"gtFine/{STEM}_gtFine_{ending}").write_bytes(b"x")
    (folder / "license.txt").touch()
    report = check_folder(folder, decode=True, num_workers=1)
    assert report.ok
    assert report.num_ignored == 3


def test_hidden_files_and_cities_are_only_counted(folder: Path) -> None:
    before = read_cityscapes(folder)
    image, label = folder / IMAGE, folder / LABEL
    for path in (image, label):
        (path.parent / f".{path.name}").write_bytes(b"half a copy")
        (path.parent.parent / ".cache").mkdir()
    (image.parent / f".gone{image.name}").symlink_to("nothing")
    assert read_cityscapes(folder) == before
    report = check_folder(folder, decode=True, num_workers=1)
    assert (report.faults, report.num_ignored) == ((), 5)


def test_names_that_drive_a_terminal_are_made_harmless(folder: Path) -> None:
    (folder / "leftImg8bit/train/ahornstadt/\x1b[2J_leftImg8bit.png").write_bytes(b"")
    [path] = faults_of(folder)
    assert "\x1b" not in path


# -- faults inside files: a training run goes on without them ---------------------------------------------------------

GOOD = encode_png(np.zeros((*TINY, 3), np.uint8), level=1)


def flip_a_byte(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def claim_size(data: bytes, width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + body + struct.pack(">I", zlib.crc32(body)) + data[33:]


BROKEN: list[tuple[str, Callable[[bytes], bytes], FaultKind, FaultKind | None]] = [
    ("empty", lambda _: b"", FaultKind.EMPTY_FILE, FaultKind.EMPTY_FILE),
    ("garbage", lambda _: b"garbage" * 99, FaultKind.NOT_PNG, FaultKind.NOT_PNG),
    ("header only", lambda data: data[:20], FaultKind.TRUNCATED, FaultKind.TRUNCATED),
    ("half", lambda data: data[: len(data) // 2], FaultKind.TRUNCATED, FaultKind.TRUNCATED),
    ("no end", lambda data: data[:-12], FaultKind.TRUNCATED, FaultKind.TRUNCATED),
    ("one byte", flip_a_byte, FaultKind.CORRUPT, None),
    ("bomb", lambda data: claim_size(data, 60_000, 60_000), FaultKind.TOO_LARGE, FaultKind.TOO_LARGE),
    ("no pixels", lambda data: claim_size(data, 0, 64), FaultKind.CORRUPT, FaultKind.CORRUPT),
    ("another size claimed", lambda data: claim_size(data, 128, 90), FaultKind.WRONG_SIZE, FaultKind.WRONG_SIZE),
]


@pytest.mark.parametrize(("damage", "kind", "quick"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_files(folder: Path, damage: Callable[[bytes], bytes], kind: FaultKind, quick: FaultKind | None) -> None:
    (folder / LABEL).write_bytes(damage((folder / LABEL).read_bytes()))
    assert faults_of(folder) == {LABEL: kind}
    assert faults_of(folder, decode=False) == ({} if quick is None else {LABEL: quick})
    with pytest.raises(UnusablePairError) as caught:
        load_pair(folder, IMAGE, LABEL)
    assert (caught.value.fault.path, caught.value.fault.kind) == (LABEL, kind)
    assert FORMAT.summarise(folder).num_train == 12, "the layout is right, so a run may start"


@pytest.mark.parametrize("decode", [True, False])
def test_a_file_larger_than_memory_is_named_and_not_read(folder: Path, decode: bool) -> None:
    with (folder / IMAGE).open("r+b") as file:
        file.truncate(2**40)
    assert faults_of(folder, decode=decode) == {IMAGE: FaultKind.TOO_LARGE}
    with pytest.raises(UnusablePairError, match=r"1\.0 TiB"):
        load_pair(folder, IMAGE, LABEL)


def test_both_files_of_a_pair_are_judged(folder: Path) -> None:
    (folder / IMAGE).write_bytes(b"")
    (folder / LABEL).write_bytes(b"?")
    assert faults_of(folder) == {IMAGE: FaultKind.EMPTY_FILE, LABEL: FaultKind.NOT_PNG}


@pytest.mark.parametrize("decode", [True, False])
def test_a_label_of_another_size(folder: Path, decode: bool) -> None:
    (folder / LABEL).write_bytes(encode_png(grey(7, (32, 128)), level=1))
    assert faults_of(folder, decode=decode) == {LABEL: FaultKind.WRONG_SIZE}


def test_unknown_ids_are_ignored_and_named(folder: Path) -> None:
    ids = grey(7)
    ids[0, :3] = 34, 200, 255
    (folder / LABEL).write_bytes(encode_png(ids, level=1))
    assert faults_of(folder) == {LABEL: FaultKind.UNKNOWN_ID}
    pair = load_pair(folder, IMAGE, LABEL)
    assert pair.labels[0, :4].tolist() == [255, 255, 255, 0]
    [fault] = pair.faults
    assert fault.usable
    assert "34, 200, 255" in fault.problem


def test_images_of_other_kinds_are_converted(folder: Path) -> None:
    rgb = np.dstack([grey(10), grey(20), grey(30)])
    kinds = {
        "RGBA": (Image.fromarray(np.dstack([rgb, grey(128)])), (10, 20, 30)),
        "palette": (Image.fromarray(rgb).quantize(4), (10, 20, 30)),
        "grey": (Image.fromarray(grey(77)), (77, 77, 77)),
        "16-bit grey": (Image.fromarray(np.full(TINY, 300 * 256 % 65536 + 5, np.uint16)), (44, 44, 44)),
    }
    for name, (image, expected) in kinds.items():
        (folder / IMAGE).write_bytes(saved(image))
        assert faults_of(folder) == {IMAGE: FaultKind.MODE}, name
        pair = load_pair(folder, IMAGE, LABEL)
        assert pair.image.shape == (*TINY, 3)
        assert tuple(pair.image[5, 5]) == expected, name
        assert [fault.usable for fault in pair.faults] == [True]


def png_of_16_bit_colour(values: np.ndarray) -> bytes:
    """Written by hand, because Pillow cannot."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_16_bit_colour_keeps_its_high_bytes() -> None:
    values = np.zeros((4, 6, 3), np.uint16)
    values[:] = (0x1234, 0xABCD, 0xFF00)
    pixels, problem = decode_rgb(png_of_16_bit_colour(values))
    assert pixels[0, 0].tolist() == [0x12, 0xAB, 0xFF]
    assert problem is not None
    assert "16-bit colour" in problem


def test_labels_of_other_kinds_are_numbers_or_refused() -> None:
    ids = np.arange(12, dtype=np.uint8).reshape(3, 4)
    palette = Image.fromarray(ids, mode="L").convert("P")
    palette.putdata(ids.ravel().tolist())
    palette.putpalette([value for number in range(256) for value in (255 - number, 7, number)])
    wide = Image.fromarray(ids.astype(np.uint16))
    for image, words in ((palette, "palette"), (wide, "16-bit grey")):
        numbers, problem = decode_numbers(saved(image))
        assert np.array_equal(numbers, ids)
        assert problem is not None
        assert words in problem
    assert decode_numbers(saved(Image.fromarray(ids)))[1] is None
    refused = (
        Image.fromarray(np.dstack([ids] * 3)),
        Image.fromarray(np.dstack([ids] * 4)),
        Image.fromarray(ids.astype(np.uint16) * 1000),
        Image.fromarray(ids > 3),
    )
    for image in refused:
        with pytest.raises(PngError, match="not label numbers"):
            decode_numbers(saved(image))


def test_an_unreadable_file_is_named(folder: Path) -> None:
    (folder / LABEL).unlink()
    (folder / LABEL).mkdir()
    assert faults_of(folder) == {IMAGE: FaultKind.MISSING_LABEL}
    with pytest.raises(UnusablePairError) as caught:
        load_pair(folder, IMAGE, LABEL)
    assert caught.value.fault.kind is FaultKind.UNREADABLE


def test_the_size_can_be_chosen_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "make", "cityscapes", str(tmp_path / "streets"), "--images", "3", "--workers", "1"]
    assert main([*words, "--image-size", "96x64"]) == 0
    headers = [read_header(path.read_bytes()) for path in (tmp_path / "streets").rglob("*.png")]
    assert {(header.width, header.height) for header in headers} == {(96, 64)}
    assert main([*words, "--image-size", "96"]) == 2
    assert "must be WIDTHxHEIGHT, as 2048x1024, got '96'" in capsys.readouterr().err


def test_the_first_rows_of_a_png_alone() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    for some in (pixels, pixels[:, :, 0]):
        decode = decode_rgb if some.ndim == 3 else decode_numbers
        for num_rows in (1, 17, 39, 40, 99):
            found, problem = decode(encode_png(some, level=3), num_rows)
            np.testing.assert_array_equal(found, some[:num_rows])
            assert problem is None


def test_pairs_of_other_sizes_are_refused_also_if_few_rows_are_read(tmp_path: Path) -> None:
    sizes = {IMAGE: (40, 56), LABEL: (44, 56)}
    for path, size in sizes.items():
        (tmp_path / path).parent.mkdir(parents=True)
        pixels = np.zeros((*size, 3) if path == IMAGE else size, np.uint8)
        (tmp_path / path).write_bytes(encode_png(pixels, level=3))
    with pytest.raises(UnusablePairError, match="56 x 44 pixels, its image has 56 x 40"):
        load_pair(tmp_path, IMAGE, LABEL, num_rows=8)
