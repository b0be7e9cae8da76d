"""JPEG files to a batch on an NVIDIA GPU, by nvJPEG and the host's cores together.

nvJPEG alone decodes more than enough while the GPU is idle, but not beside training: on one H200 (500x375, 97 KB)
19,600 images/s alone, 3,400 beside a ResNet-50 that takes 6,900 (why is not known). So each batch is shared between
nvJPEG and the host's cores in proportion to their speeds at the moment, which are measured as it goes. Only the part of
an image that is wanted travels to the GPU; resize, flip and normalisation of the whole batch follow there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from trainmark.datasets.jpeg import END_OF_IMAGE
from trainmark.worker.engine_torch_images import (
    Format,
    Problems,
    View,
    believed_size,
    decode_or_grey,
    num_decoders,
    read_sizes,
)
from trainmark.worker.engine_torch_resample import crop_resize

_SMOOTHING = 0.1
_MIN_SHARE, _MAX_SHARE = 0.02, 0.98
_CHUNK = 4
"""Images decoded by one task of the pool: a task for each image would cost as much in locks as it gains."""


class GpuImages:
    """`prepare` is called by several threads at once, each with a stream and a pinned buffer of its own."""

    def __init__(self, wanted: Format, problems: Problems, device: torch.device) -> None:
        self._format, self._problems, self._device = wanted, problems, device
        self._pool = ThreadPoolExecutor(max_workers=num_decoders(device_type="cuda"), thread_name_prefix="decode")
        self.balance = Balance()
        self._nvjpeg = threading.Lock()  # torchvision has one decoder for all threads anyway
        self._local = threading.local()

    def prepare(self, paths: Sequence[str], files: Sequence[bytes], view: View) -> Tensor:
        """The result is complete when this returns."""
        sizes = read_sizes(files)
        boxes, flips = view(sizes)
        crops, boxes = split_boxes(boxes, sizes)
        with torch.cuda.stream(self._stream()):
            padded = self._decode(paths, files, crops)
            batch = crop_resize(
                padded,
                torch.from_numpy(boxes.astype(np.float32)).to(self._device),
                torch.from_numpy(flips).to(self._device),
                image_size=self._format.image_size,
                mean=self._format.mean,
                std=self._format.std,
                dtype=self._format.dtype,
                channels_last=self._format.channels_last,
            )
            torch.cuda.current_stream().synchronize()
        return batch

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _decode(self, paths: Sequence[str], files: Sequence[bytes], crops: NDArray[np.int64]) -> Tensor:
        """The crops of all images, padded to one size: N x H x W x 3 on the device."""
        height, width = crops[:, 2:].max(axis=0).tolist()
        shape = (len(files), height, width, 3)
        staging = self._staging(shape)
        padded = torch.empty(shape, dtype=torch.uint8, device=self._device)
        whole = [row for row, data in enumerate(files) if data.endswith(END_OF_IMAGE) and believed_size(data)]
        has_nvjpeg = self._nvjpeg.acquire(blocking=False)
        by_gpu = whole[: round(self.balance.share * len(whole))] if has_nvjpeg else []
        by_cpu = sorted(set(range(len(files))).difference(by_gpu))
        begin = time.perf_counter()
        chunks = [by_cpu[at : at + _CHUNK] for at in range(0, len(by_cpu), _CHUNK)]
        tasks = [self._pool.submit(self._decode_rows, staging, rows, paths, files, crops) for rows in chunks]
        try:
            failed = self._decode_by_gpu(padded, by_gpu, files, crops)
        finally:
            if has_nvjpeg:
                self._nvjpeg.release()
        gpu_s = time.perf_counter() - begin  # waiting for the other threads' turns included: that is its speed for us
        cpu_s = _last_end(tasks) - begin
        if failed:
            self._decode_rows(staging, failed, paths, files, crops)
        elif by_gpu and by_cpu:
            self.balance.note(len(by_gpu) / gpu_s, len(by_cpu) / cpu_s)
        _copy_rows(padded, torch.from_numpy(staging), sorted([*by_cpu, *failed]))
        return padded

    def _decode_rows(
        self,
        staging: NDArray[np.uint8],
        rows: Sequence[int],
        paths: Sequence[str],
        files: Sequence[bytes],
        crops: NDArray[np.int64],
    ) -> float:
        """On a core; returns when it ended."""
        for row in rows:
            top, left, height, width = crops[row].tolist()
            image = decode_or_grey(paths[row], files[row], self._problems)
            staging[row, :height, :width] = image[top : top + height, left : left + width]
        return time.perf_counter()

    def _decode_by_gpu(
        self, padded: Tensor, rows: Sequence[int], files: Sequence[bytes], crops: NDArray[np.int64]
    ) -> Sequence[int]:
        """The rows that nvJPEG could not decode: all of them when one is bad, since it refuses the whole list."""
        if not rows:
            return ()
        encoded = [torch.frombuffer(bytearray(files[row]), dtype=torch.uint8) for row in rows]
        try:
            images = decode_jpeg(encoded, mode=ImageReadMode.RGB, device=self._device)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            return rows
        for row, image in zip(rows, images, strict=True):
            top, left, height, width = crops[row].tolist()
            crop = image[:, top : top + height, left : left + width]
            padded[row, :height, :width].copy_(crop.permute(1, 2, 0))
        return ()

    def _stream(self) -> torch.cuda.Stream:
        if not hasattr(self._local, "stream"):
            torch.cuda.set_device(self._device)
            self._local.stream = torch.cuda.Stream(self._device, priority=-1)
        stream: torch.cuda.Stream = self._local.stream
        return stream

    def _staging(self, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Pinned memory is slow to get, so a thread keeps its own; it is free again when `prepare` has returned."""
        size = int(np.prod(shape))
        if getattr(self._local, "size", 0) < size:
            self._local.size = 2 * size
            self._local.pinned = torch.empty(2 * size, dtype=torch.uint8, pin_memory=self._device.type == "cuda")
        pinned: Tensor = self._local.pinned
        return pinned[:size].numpy().reshape(shape)


class Balance:
    """nvJPEG's part of a batch, so that both sides end together."""

    def __init__(self) -> None:
        self.share = 0.6

    def note(self, gpu_per_s: float, cpu_per_s: float) -> None:
        wanted = gpu_per_s / (gpu_per_s + cpu_per_s)
        share = (1 - _SMOOTHING) * self.share + _SMOOTHING * wanted
        self.share = min(_MAX_SHARE, max(_MIN_SHARE, share))


def split_boxes(boxes: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Whole pixels to cut out of each image (top, left, height, width), and the boxes within those cuts."""
    begin = np.clip(np.floor(boxes[:, :2]), 0, sizes - 1).astype(np.int64)
    end = np.clip(np.ceil(boxes[:, :2] + boxes[:, 2:]), begin + 1, sizes).astype(np.int64)
    crops = np.hstack([begin, end - begin])
    return crops, np.hstack([boxes[:, :2] - begin, boxes[:, 2:]])


def _copy_rows(padded: Tensor, staging: Tensor, rows: Sequence[int]) -> None:
    """One copy for the usual case, where nvJPEG has the first rows and the cores all others."""
    if not rows:
        return
    first = rows[0]
    if rows == list(range(first, len(padded))):
        padded[first:].copy_(staging[first:], non_blocking=True)
        return
    for row in rows:
        padded[row].copy_(staging[row], non_blocking=True)


def _last_end(tasks: Sequence[Future[float]]) -> float:
    return max((task.result() for task in tasks), default=0.0)
