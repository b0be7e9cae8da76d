from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from making import read_pixels
from trainmark.datasets.fashion_mnist.make import CLASSES, DEBIAN_SOURCE, make_fashion_mnist, read_idx
from trainmark.datasets.imagenet.check import check_folder
from trainmark.datasets.imagenet.read import read_folder
from trainmark.errors import DataError


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + b"".join(size.to_bytes(4) for size in values.shape) + values.tobytes()


def grey_levels(labels: np.ndarray) -> np.ndarray:
    """Images whose brightness is their label, so that a mix-up would show."""
    return np.broadcast_to((labels * 25)[:, None, None], (len(labels), 28, 28)).astype(np.uint8)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for prefix, count in (("train", 40), ("t10k", 20)):
        labels = (np.arange(count) * 7 % 10).astype(np.uint8)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(grey_levels(labels)), mtime=0))
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels), mtime=0))
    return folder


def test_conversion(source: Path, tmp_path: Path) -> None:
    report = make_fashion_mnist(tmp_path / "made", source=source)
    folder = read_folder(tmp_path / "made")
    assert folder.classes == report.classes == CLASSES
    assert folder.val is not None
    assert (report.num_train, report.num_val) == (len(folder.train.paths), len(folder.val.paths)) == (40, 20)
    for split in (folder.train, folder.val):
        for path, label in zip(split.paths, split.labels, strict=True):
            pixels = read_pixels(folder.root / path)
            assert pixels.shape == (28, 28, 3)
            assert abs(pixels.mean() - 25 * label) < 2
    assert check_folder(folder.root, decode=True, num_workers=1).ok


def test_limit_is_spread_over_the_classes(source: Path, tmp_path: Path) -> None:
    report = make_fashion_mnist(tmp_path / "made", source=source, limit=15)
    folder = read_folder(tmp_path / "made")
    assert (report.num_train, report.num_val) == (15, 15)
    assert sorted(np.bincount(folder.train.labels).tolist()) == [1] * 5 + [2] * 5


def test_limit_below_one_image_per_class(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="9 images"):
        make_fashion_mnist(tmp_path / "made", source=source, limit=9)


def test_missing_package_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found") as caught:
        make_fashion_mnist(tmp_path / "made", source=tmp_path / "nowhere")
    assert "dataset-fashion-mnist" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_occupied_folder_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not empty"):
        make_fashion_mnist(source, source=source)


LABELS = np.arange(10, dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("images-idx3", gzip.compress(idx(grey_levels(LABELS)), mtime=0), "10 images but 40 labels"),
        ("images-idx3", gzip.compress(idx(np.zeros((40, 0, 28), np.uint8)), mtime=0), "no pixels"),
        ("labels-idx1", gzip.compress(idx(np.full(40, 11, np.uint8)), mtime=0), "not 0 to 9"),
        ("labels-idx1", gzip.compress(idx(np.zeros(0, np.uint8)), mtime=0), "40 images but 0 labels"),
    ],
)
def test_files_that_do_not_fit_together(source: Path, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (source / f"train-{name}-ubyte.gz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        make_fashion_mnist(tmp_path / "made", source=source)
    assert not (tmp_path / "made").exists()


GOOD = idx(LABELS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "in the header|not an IDX file"),
        (b"plain text", "gzip"),
        (gzip.compress(GOOD, mtime=0)[:-12], "ended"),
        (gzip.compress(GOOD, mtime=0)[:12] + b"\xff" * 20, "damaged"),
        (gzip.compress(GOOD[:-1], mtime=0), "fewer"),
        (gzip.compress(GOOD + b"x", mtime=0), "more"),
        (gzip.compress(GOOD[:6], mtime=0), "in the header"),
        (gzip.compress(b"\0\0\x08\x03" + GOOD[4:], mtime=0), "1-dimensional"),
        (gzip.compress(b"\0\0\x0d\x01" + GOOD[4:], mtime=0), "not an IDX file"),
        (gzip.compress(b"\0\0\x08\x01\xff\xff\xff\xff", mtime=0), "states 4,294,967,295 bytes"),
    ],
)
def test_damaged_idx_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path, num_dimensions=1)
    assert caught.value.hint


def test_idx_path_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path, num_dimensions=1)


@pytest.mark.skipif(not DEBIAN_SOURCE.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_the_real_files(tmp_path: Path) -> None:
    report = make_fashion_mnist(tmp_path / "made", limit=500)
    assert (report.num_train, report.num_val) == (500, 500)
    folder = read_folder(tmp_path / "made")
    assert np.bincount(folder.train.labels).tolist() == [50] * 10
    trouser, bag = (
        np.mean([read_pixels(folder.root / path).mean() for path in folder.train.paths if name in path])
        for name in ("1_trouser", "8_bag")
    )
    assert trouser < bag, "a pair of trousers leaves more of the picture black than a bag does"
