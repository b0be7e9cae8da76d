"""Converts Fashion-MNIST, 70,000 small grey photographs of clothes, to JPEG files in ImageNet's layout.

The originals are gzipped IDX files, as in Debian's package: real photographs that any machine can install offline, to
find out quickly whether a training learns.
"""

from __future__ import annotations

import gzip
import math
import time
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainmark.datasets.jpeg import encode_jpeg, require_encoder
from trainmark.datasets.report import MakeReport
from trainmark.datasets.staging import staged_folder
from trainmark.errors import DataError
from trainmark.units import format_count

_UNSIGNED_BYTE = 0x08
_MAX_BYTES = 2**30  # MNIST and similar sets are below 50 MB; a few bytes of gzip can unpack to any size


def read_idx(path: Path, *, num_dimensions: int) -> npt.NDArray[np.uint8]:
    try:
        with gzip.open(path, "rb") as file:
            shape = _parse_header(path, file.read(4 + 4 * num_dimensions), num_dimensions)
            size = math.prod(shape)
            if size > _MAX_BYTES:
                raise _broken(path, f"its header states {size:,} bytes")
            body = file.read(size + 1)  # one more than stated, to detect extra data
    except FileNotFoundError:
        raise DataError(
            f"not found: {path}",
            why="the original files are needed to make this data set",
            hint="apt-get install dataset-fashion-mnist (Debian, Ubuntu), or --source with the folder of the .gz files",
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _broken(path, str(error)) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read", why=error.strerror or str(error), hint="check its permissions"
        ) from error
    if len(body) != size:
        raise _broken(path, f"{'more' if len(body) > size else 'fewer'} than the {size:,} bytes stated in its header")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _parse_header(path: Path, header: bytes, num_dimensions: int) -> tuple[int, ...]:
    if header[:4] != bytes((0, 0, _UNSIGNED_BYTE, num_dimensions)):
        raise _broken(
            path, f"not an IDX file of {num_dimensions}-dimensional bytes (starts with {header[:4].hex(' ')})"
        )
    if len(header) != 4 + 4 * num_dimensions:
        raise _broken(path, "truncated in the header")
    return tuple(int.from_bytes(header[at : at + 4]) for at in range(4, len(header), 4))


def _broken(path: Path, why: str) -> DataError:
    return DataError(f"{path} is damaged or not an IDX file", why=why, hint="fetch the file again")


DEBIAN_SOURCE = Path("/usr/share/datasets/fashion-mnist")
CLASSES = (
    "0_t-shirt",
    "1_trouser",
    "2_pullover",
    "3_dress",
    "4_coat",
    "5_sandal",
    "6_shirt",
    "7_sneaker",
    "8_bag",
    "9_ankle-boot",
)
_SPLITS = (("train", "train"), ("val", "t10k"))  # folder name, prefix of the files
_QUALITY = 95

Bytes = npt.NDArray[np.uint8]


def make_fashion_mnist(root: Path, *, source: Path = DEBIAN_SOURCE, limit: int | None = None) -> MakeReport:
    """`limit` is the number of images kept of each split, evenly over the classes, in the order of the files."""
    started = time.perf_counter()
    require_encoder()
    if limit is not None and limit < len(CLASSES):
        what = f"with {format_count(limit, 'images')} some of the {len(CLASSES)} classes would be empty"
        raise DataError(what, hint=f"give {len(CLASSES)} or more")
    originals = [_read_split(source, prefix, limit) for _, prefix in _SPLITS]
    num_bytes = 0
    with staged_folder(root) as folder:
        for (split, _), (images, labels) in zip(_SPLITS, originals, strict=True):
            num_bytes += _write_split(folder / split, images, labels)
    (_, train_labels), (_, val_labels) = originals
    return MakeReport(
        root=root,
        unit="images",
        classes=CLASSES,
        num_train=len(train_labels),
        num_val=len(val_labels),
        num_bytes=num_bytes,
        elapsed_s=time.perf_counter() - started,
    )


def _read_split(source: Path, prefix: str, limit: int | None) -> tuple[Bytes, Bytes]:
    images = read_idx(source / f"{prefix}-images-idx3-ubyte.gz", num_dimensions=3)
    labels = read_idx(source / f"{prefix}-labels-idx1-ubyte.gz", num_dimensions=1)
    hint = "fetch all four files again, from one source"
    if len(images) != len(labels):
        raise DataError(
            f"{source}: files do not match",
            why=f"{len(images)} images but {len(labels)} labels for {prefix}",
            hint=hint,
        )
    if set(np.unique(labels).tolist()) != set(range(len(CLASSES))):
        raise DataError(f"{source} is not Fashion-MNIST", why=f"the labels of {prefix} are not 0 to 9", hint=hint)
    if images.shape[1] == 0 or images.shape[2] == 0:
        raise DataError(f"{source} is not Fashion-MNIST", why=f"the images of {prefix} have no pixels", hint=hint)
    kept = _spread_over_classes(labels, limit)
    return images[kept], labels[kept]


def _spread_over_classes(labels: Bytes, limit: int | None) -> npt.NDArray[np.intp]:
    """Indices of the first image of each class, then the second of each, and so on, up to `limit`."""
    rank = np.empty(len(labels), dtype=np.intp)
    for label in range(len(CLASSES)):
        members = labels == label
        rank[members] = np.arange(np.count_nonzero(members))
    return np.sort(np.argsort(rank, kind="stable")[:limit])


def _write_split(folder: Path, images: Bytes, labels: Bytes) -> int:
    for class_ in CLASSES:
        (folder / class_).mkdir(parents=True)
    num_bytes = 0
    for index, (pixels, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        path = folder / CLASSES[label] / f"{index:05d}.jpg"
        num_bytes += path.write_bytes(encode_jpeg(pixels, quality=_QUALITY))
    return num_bytes
