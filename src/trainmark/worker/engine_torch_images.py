"""JPEG files to a normalised batch: on the CPU here, by nvJPEG and all cores in `engine_torch_nvjpeg` for a GPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainmark.datasets.jpeg import MAX_PIXELS, decode_lenient, jpeg_size
from trainmark.host import num_cores

View = Callable[[NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.bool_]]]
"""Sizes (height, width) of a batch's images to boxes (top, left, height, width) and flips."""

_UNKNOWN_SIZE = (64, 64)
_GREY = 127
"""Stands in for an image that cannot be read at all: the batch keeps its size, and the problem is named."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """What the model wants to see."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype
    channels_last: bool


class Images(Protocol):
    """Prepares batches; called from several threads at once."""

    def prepare(self, paths: Sequence[str], files: Sequence[bytes], view: View) -> Tensor: ...
    def close(self) -> None: ...


class Problems:
    """Images that could not be read, each named once, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[tuple[str, str]] = []
        self._known: set[str] = set()

    def note(self, path: str, problem: str) -> None:
        with self._lock:
            if path not in self._known:
                self._known.add(path)
                self._new.append((path, problem))

    def take(self) -> list[tuple[str, str]]:
        with self._lock:
            new, self._new = self._new, []
            return new


def read_sizes(files: Sequence[bytes]) -> NDArray[np.int64]:
    """From the headers alone."""
    return np.array([believed_size(data) or _UNKNOWN_SIZE for data in files], dtype=np.int64)


def believed_size(data: bytes) -> tuple[int, int] | None:
    """None where the header tells none, or one no file holds: a damaged header may claim 65535 x 65535."""
    size = jpeg_size(data)
    return size if size is not None and 0 < size[0] * size[1] <= MAX_PIXELS else None


def decode_or_grey(path: str, data: bytes, problems: Problems) -> NDArray[np.uint8]:
    """An array of exactly the size that `read_sizes` told, whatever is in the file."""
    size = believed_size(data)
    image, problem = decode_lenient(data) if size is not None else (None, "no readable JPEG header")
    if problem is not None:
        problems.note(path, problem)
    if image is not None and image.shape[:2] == size:
        return image
    return np.full((*(size or _UNKNOWN_SIZE), 3), _GREY, dtype=np.uint8)


def num_decoders(*, device_type: str) -> int:
    """The cores are shared by the ranks of this machine; beside a GPU one is left for the thread that launches."""
    share = num_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, share - 1 if device_type == "cuda" else share)


class CpuImages:
    """Decoder and Pillow's resize both let go of the interpreter's lock, so threads use all cores."""

    def __init__(self, wanted: Format, problems: Problems) -> None:
        self._format, self._problems = wanted, problems
        self._pool = ThreadPoolExecutor(max_workers=num_decoders(device_type="cpu"), thread_name_prefix="decode")

    def prepare(self, paths: Sequence[str], files: Sequence[bytes], view: View) -> Tensor:
        boxes, flips = view(read_sizes(files))
        size = self._format.image_size
        batch = np.empty((len(files), size, size, 3), dtype=np.uint8)

        def fill(row: int) -> None:
            image = decode_or_grey(paths[row], files[row], self._problems)
            batch[row] = crop_resize_one(image, boxes[row], flips[row], size)

        list(self._pool.map(fill, range(len(files))))
        return self._normalise(torch.from_numpy(batch))

    def _normalise(self, batch: Tensor) -> Tensor:
        mean = 255 * torch.tensor(self._format.mean)
        std = 255 * torch.tensor(self._format.std)
        images = ((batch - mean) / std).permute(0, 3, 1, 2)
        layout = torch.channels_last if self._format.channels_last else torch.contiguous_format
        return images.to(self._format.dtype).contiguous(memory_format=layout)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def crop_resize_one(
    image: NDArray[np.uint8], box: NDArray[np.float64], flip: np.bool_ | bool, size: int
) -> NDArray[np.uint8]:
    from PIL import Image

    top, left, height, width = (float(value) for value in box)
    limits = image.shape[1], image.shape[0]
    corners = (left, top, min(left + width, limits[0]), min(top + height, limits[1]))
    resized = np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR, box=corners))
    return resized[:, ::-1] if flip else resized
