"""JPEG files to a normalised batch: on the CPU here, for a GPU in `gpu_images`."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainmark import rank_environment
from trainmark.datasets.report import printable
from trainmark.host import num_cores
from trainmark.runfolder.records import WarningCode
from trainmark.worker.images import ImageList, crop_resize_one, cut_or_grey, read_frames, sizes_of
from trainmark.worker.images import Problems as ProblemList

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Format:
    """What the model wants to see."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype
    channels_last: bool


class Images(Protocol):
    """Prepares batches of images and labels on the device; called from several threads at once."""

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> Batch: ...
    def close(self) -> None: ...


class Problems:
    """Warnings of a feed, as (code, message), from any thread; an image that could not be read is named once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[tuple[str, str]] = []
        self._known: set[str] = set()

    def note(self, problems: ProblemList) -> None:
        with self._lock:
            for path, problem in problems:
                if path not in self._known:
                    self._known.add(path)
                    self._new.append((WarningCode.BAD_SAMPLE, f"{printable(path)}: {problem}"))

    def say(self, code: str, message: str) -> None:
        with self._lock:
            self._new.append((code, message))

    def take(self) -> list[tuple[str, str]]:
        """What came since the last time."""
        with self._lock:
            new, self._new = self._new, []
            return new


_BOUND = ("mask_cpu", "map_cpu", "rank")
"""How Slurm says that each task has cores of its own, in SLURM_CPU_BIND_TYPE."""


def num_decoders() -> int:
    """The cores are shared by the ranks of this machine, unless each sees only its own."""
    if os.environ.get("SLURM_CPU_BIND_TYPE", "").startswith(_BOUND):
        return num_cores()
    return max(1, num_cores() // rank_environment.read("LOCAL_WORLD_SIZE", os.environ, default=1))


class CpuImages:
    """Decoder and Pillow's resize both let go of the interpreter's lock, so threads use all cores."""

    def __init__(self, wanted: Format, problems: Problems) -> None:
        self._format, self._problems = wanted, problems
        self._pool = ThreadPoolExecutor(max_workers=num_decoders(), thread_name_prefix="decode")

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> Batch:
        files = images.read()
        size = self._format.image_size
        frames = read_frames(files)
        cuts = images.view.cuts(sizes_of(frames), images.indices, image_size=size)
        batch = np.empty((len(files), size, size, 3), dtype=np.uint8)

        def fill(row: int) -> None:
            problems: ProblemList = []
            cut = cut_or_grey(images.paths[row], files[row], frames[row], problems, place=cuts.places[row])
            self._problems.note(problems)
            batch[row] = crop_resize_one(cut, cuts.boxes[row], cuts.flips[row], size)

        list(self._pool.map(fill, range(len(files))))
        return self._normalise(torch.from_numpy(batch)), torch.from_numpy(labels)

    def _normalise(self, batch: Tensor) -> Tensor:
        mean = 255 * torch.tensor(self._format.mean)
        std = 255 * torch.tensor(self._format.std)
        images = ((batch - mean) / std).permute(0, 3, 1, 2)
        layout = torch.channels_last if self._format.channels_last else torch.contiguous_format
        return images.to(self._format.dtype).contiguous(memory_format=layout)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
