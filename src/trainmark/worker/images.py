"""JPEG files to crops of pixels, without a framework, in the threads and processes that load data."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark import rank_environment
from trainmark.datasets.jpeg import MAX_PIXELS, Frame, decode_lenient, read_frame
from trainmark.host import num_cores
from trainmark.worker.samples import ProblemList, Problems
from trainmark.workloads.data import Boxes, CropRules

Pixels = NDArray[np.uint8]

CELL_SIDE = 512
"""Crops up to this size are copied to the GPU as they are; the rare larger one is resized on the host."""

_NO_HEADER = "no readable JPEG header"
_UNKNOWN_SIZE = (64, 64)
_GREY = 127
"""In place of an image that cannot be read: the batch keeps its size, and the problem is reported."""


@dataclass(frozen=True, kw_only=True)
class View:
    """Which part of each image is seen."""

    crops: CropRules
    seed: int
    epoch: int | None
    """None for evaluation."""

    def boxes(
        self, sizes: NDArray[np.int64], indices: NDArray[np.int64], *, image_size: int
    ) -> tuple[Boxes, NDArray[np.bool_]]:
        """Sizes (height, width) to boxes (top, left, height, width) and flips."""
        if self.epoch is None:
            return self.crops.eval(sizes, image_size=image_size)
        return self.crops.train(sizes, seed=self.seed, epoch=self.epoch, indices=indices)

    def cuts(self, sizes: NDArray[np.int64], indices: NDArray[np.int64], *, image_size: int) -> Cuts:
        """Training crops, then resizes; evaluation resizes the whole image, so that the filter sees beyond the box."""
        boxes, flips = self.boxes(sizes, indices, image_size=image_size)
        reach = np.maximum(boxes[:, 2:] / image_size, 1) if self.epoch is None else 0
        begin = np.clip(np.floor(boxes[:, :2] - reach), 0, sizes - 1).astype(np.int64)
        end = np.clip(np.ceil(boxes[:, :2] + boxes[:, 2:] + reach), begin + 1, sizes).astype(np.int64)
        inner = np.hstack([boxes[:, :2] - begin, boxes[:, 2:]])
        return Cuts(places=np.hstack([begin, end - begin]), boxes=inner, flips=flips)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cuts:
    """The pixels of each image that a resize needs, and the box within them."""

    places: NDArray[np.int64]
    """(top, left, height, width)."""
    boxes: Boxes
    flips: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageList:
    """Some images of a data set, in the order of a batch."""

    root: str
    paths: tuple[str, ...]
    indices: NDArray[np.int64]
    view: View

    def part(self, rows: Sequence[int]) -> ImageList:
        paths = tuple(self.paths[row] for row in rows)
        return ImageList(root=self.root, paths=paths, indices=self.indices[list(rows)], view=self.view)

    def read(self) -> list[bytes]:
        return [_read_file(f"{self.root}/{path}") for path in self.paths]


@dataclass(frozen=True, kw_only=True, eq=False)
class Crops:
    """Where the wanted part lies within each stored crop."""

    boxes: Boxes
    flips: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    """(height, width) of each stored crop."""
    problems: ProblemList
    seconds: float = 0.0
    """Time of one core to make them, or of the core that waited for nvJPEG."""


def store_crops(images: ImageList, *, memory: str, rows: Sequence[int], image_size: int) -> Crops:
    """Decode into rows of shared memory, N x CELL_SIDE x CELL_SIDE x 3; `memory` is its path."""
    begin = time.perf_counter()
    cells = np.ndarray((max(rows) + 1, CELL_SIDE, CELL_SIDE, 3), np.uint8, attach(memory))
    files = images.read()
    frames = read_frames(files)
    cuts = images.view.cuts(sizes_of(frames), images.indices, image_size=image_size)
    stored, boxes = cuts.places[:, 2:].copy(), cuts.boxes.copy()
    problems: ProblemList = []
    for position, row in enumerate(rows):
        path, data, frame, place = images.paths[position], files[position], frames[position], cuts.places[position]
        cut = cut_or_grey(path, data, frame, problems, place=place, into=_scratch)
        if max(cut.shape) > CELL_SIDE:
            cut = crop_resize_one(cut, boxes[position], False, image_size)
            stored[position], boxes[position] = (image_size, image_size), (0, 0, image_size, image_size)
        height, width = stored[position].tolist()
        cells[row, :height, :width] = cut
    seconds = time.perf_counter() - begin
    return Crops(boxes=boxes, flips=cuts.flips, sizes=stored, problems=problems, seconds=seconds)


_scratch: Pixels = np.empty(4_000_000, dtype=np.uint8)
"""For one image at a time; larger images get memory of their own."""


def _read_file(path: str) -> bytes:
    """Half the CPU time of pathlib's read_bytes, which matters at thousands of files per second."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""  # reported as a bad image when it is decoded; one missing file does not end a run
    try:
        data = os.read(descriptor, os.fstat(descriptor).st_size)
    except OSError:
        data = b""
    finally:
        os.close(descriptor)
    return data


def read_frames(files: Sequence[bytes]) -> list[Frame | None]:
    """From the headers alone. None for an unreadable one, or a size that is impossible, as in a damaged file."""
    frames = (read_frame(data) for data in files)
    return [frame if frame is not None and frame.height * frame.width <= MAX_PIXELS else None for frame in frames]


def sizes_of(frames: Sequence[Frame | None]) -> NDArray[np.int64]:
    sizes = [_UNKNOWN_SIZE if frame is None else (frame.height, frame.width) for frame in frames]
    return np.array(sizes, dtype=np.int64)


def cut_or_grey(
    path: str,
    data: bytes,
    frame: Frame | None,
    problems: ProblemList,
    *,
    place: NDArray[np.int64],
    into: Pixels | None = None,
) -> Pixels:
    """The pixels at (top, left, height, width), or grey if the file does not have the size that its header says.

    May use the memory of `into`. Rows below the place need not be decoded.
    """
    top, left, height, width = place.tolist()
    num_rows = top + height
    image, problem = decode_lenient(data, frame=frame, into=into, num_rows=num_rows) if frame else (None, _NO_HEADER)
    if problem is not None:
        problems.append((path, problem))
    if frame and image is not None and image.shape[1] == frame.width and num_rows <= image.shape[0] <= frame.height:
        return image[top:num_rows, left : left + width]
    return np.full((height, width, 3), _GREY, dtype=np.uint8)


class ImageDecoder:
    """Files to a batch of resized crops on the CPU, N x size x size x 3 bytes.

    The decoder and Pillow's resize both release the interpreter's lock, so threads use all cores.
    """

    def __init__(self, image_size: int, problems: Problems) -> None:
        self._size, self._problems = image_size, problems
        self._pool = ThreadPoolExecutor(max_workers=num_decoders(), thread_name_prefix="decode")

    def decode(self, images: ImageList) -> Pixels:
        files = images.read()
        frames = read_frames(files)
        cuts = images.view.cuts(sizes_of(frames), images.indices, image_size=self._size)
        batch = np.empty((len(files), self._size, self._size, 3), dtype=np.uint8)

        def fill(row: int) -> None:
            problems: ProblemList = []
            cut = cut_or_grey(images.paths[row], files[row], frames[row], problems, place=cuts.places[row])
            self._problems.note(problems)
            batch[row] = crop_resize_one(cut, cuts.boxes[row], cuts.flips[row], self._size)

        list(self._pool.map(fill, range(len(files))))
        return batch

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


_MAX_LOADERS = 16
_BOUND = ("mask_cpu", "map_cpu", "rank")
"""Values of SLURM_CPU_BIND_TYPE that mean that each task has its own cores."""


def num_sample_loaders() -> int:
    """Processes or threads that make samples for a GPU."""
    return min(_MAX_LOADERS, num_decoders())


def num_decoders() -> int:
    """The ranks of this machine share its cores, unless each sees only its own."""
    if os.environ.get("SLURM_CPU_BIND_TYPE", "").startswith(_BOUND):
        return num_cores()
    return max(1, num_cores() // rank_environment.read("LOCAL_WORLD_SIZE", os.environ, default=1))


def crop_resize_one(image: Pixels, box: NDArray[np.float64], flip: np.bool_ | bool, size: int) -> Pixels:
    from PIL import Image

    top, left, height, width = (float(value) for value in box)
    limits = image.shape[1], image.shape[0]
    corners = (left, top, min(left + width, limits[0]), min(top + height, limits[1]))
    resized = np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR, box=corners))
    return resized[:, ::-1] if flip else resized


class SharedBytes:
    """Memory that several processes share and that is freed with the last of them, however that one ended.

    It has no name. multiprocessing's own lives in /dev/shm: 64 MB in a container by default, and what a killed run had
    there stays until the machine restarts.
    """

    def __init__(self, num_bytes: int) -> None:
        self._descriptor = os.memfd_create("trainmark")
        os.ftruncate(self._descriptor, num_bytes)
        self.buffer = mmap.mmap(self._descriptor, num_bytes)
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        """For `attach` in processes of the same user, while this process lives."""

    def close(self) -> None:
        """No view of the memory may be left."""
        self.buffer.close()
        os.close(self._descriptor)


def attach(path: str) -> mmap.mmap:
    """Stays attached for the life of this process: it is used again."""
    if path not in _attached:
        descriptor = os.open(path, os.O_RDWR)
        try:
            _attached[path] = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
    return _attached[path]


_attached: dict[str, mmap.mmap] = {}
