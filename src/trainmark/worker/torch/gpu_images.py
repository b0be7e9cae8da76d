"""JPEG files to a batch on an NVIDIA GPU, decoded by the host's cores and nvJPEG together.

nvJPEG is fast while the GPU is idle, but not during training: on one H200 (500x375, 96 KB) its hardware decoder gave
25,900 images/s alone and 300 to 450 beside a captured ResNet-50 step, whatever the batch, the stream's priority, the
output's layout or the allocator; kernels of another stream were not delayed in the same test. So most images are
decoded by the host's cores, in processes: threads share one interpreter's lock, which is not enough for 7,000 images
per second. nvJPEG gets a share that follows its measured speed, while no other batch uses it, and nothing if it is
slower than the one core that waits for it. Only the needed part of an image is copied to the GPU; resize, flip and
normalisation of the whole batch follow there.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from queue import SimpleQueue

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from trainmark.datasets.jpeg import END_OF_IMAGE
from trainmark.messages.training import no_resize_kernel, not_compiled
from trainmark.parent_death import serve
from trainmark.worker.images import (
    CELL_SIDE,
    Crops,
    ImageList,
    SharedBytes,
    num_decoders,
    read_frames,
    sizes_of,
    store_crops,
)
from trainmark.worker.samples import Problems
from trainmark.worker.torch.images import Batch, Format
from trainmark.worker.torch.resample import crop_resize, to_geometry

_NO_DECODER = "a process that decodes images was ended from outside, perhaps for lack of memory"

CropResize = Callable[[Tensor, Tensor, Format], Tensor]

_SMOOTHING = 0.1
_MAX_SHARE = 0.98
_START_SHARE = 0.05
_RETRY_AFTER = 200
"""Batches."""
_ROWS_PER_TASK = 16
_CELL_BYTES = CELL_SIDE * CELL_SIDE * 3
"""A row of a batch's shared memory: one crop, at the start of a cell of fixed size."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Place:
    """Pinned memory that the decoding processes write and the GPU reads."""

    memory: SharedBytes
    cells: Tensor


class _OfThread(threading.local):
    stream: torch.cuda.Stream | None = None


class GpuImages:
    """`prepare` is called by `num_loaders` threads at once, each with its own stream and memory."""

    def __init__(
        self, wanted: Format, problems: Problems, device: torch.device, *, batch_size: int, num_loaders: int
    ) -> None:
        self._format, self._problems, self._device = wanted, problems, device
        self._pool = ProcessPoolExecutor(
            num_decoders(),
            mp_context=get_context("spawn"),  # a forked copy of a process that uses CUDA is not safe
            initializer=serve,
            initargs=(os.getpid(),),
        )
        # Started from this thread: for the kernel the starting thread is the parent, and loader threads end earlier.
        for _ in range(num_decoders()):
            self._pool.submit(os.getpid)
        self._places: SimpleQueue[_Place] = SimpleQueue()
        try:
            for _ in range(num_loaders):
                self._places.put(self._new_place(batch_size))
            self._crop_resize = _choose_crop_resize(wanted, problems, device)
        except BaseException:
            self.close()
            raise
        self.balance = Balance()
        self._nvjpeg = threading.Lock()  # torchvision has one decoder for all threads anyway
        self._local = _OfThread()

    def prepare(self, images: ImageList, labels: NDArray[np.int64]) -> Batch:
        """The result is complete when this returns.

        All copies are from pinned memory, which is kept until then, and on the loader's own stream. On the training's
        stream a copy would wait for the steps queued before it.
        """
        place = self._places.get()
        try:
            with torch.cuda.stream(self._stream()):
                padded, crops = self._decode(images, place)
                height, width = crops.sizes.max(axis=0).tolist()
                small = [to_geometry(crops).pin_memory(), torch.from_numpy(labels).pin_memory()]
                geometry, targets = (tensor.to(self._device, non_blocking=True) for tensor in small)
                inputs = self._crop_resize(padded[:, :height, :width], geometry, self._format)
                self._wait()
        except BrokenProcessPool as error:
            raise RuntimeError(_NO_DECODER) from error
        finally:
            self._places.put(place)
        return inputs, targets

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        while not self._places.empty():
            place = self._places.get()
            memory = place.memory
            torch.cuda.cudart().cudaHostUnregister(place.cells.data_ptr())
            del place  # its tensor is a view of the memory, which can only be closed without views
            memory.close()

    def _decode(self, images: ImageList, place: _Place) -> tuple[Tensor, Crops]:
        """The crops of all images in cells of one size, N x CELL_SIDE x CELL_SIDE x 3 on the device."""
        num = len(images.paths)
        has_nvjpeg = self._nvjpeg.acquire(blocking=False)
        try:
            num_by_gpu = round(self.balance.share() * num) if has_nvjpeg else 0
            begin = time.perf_counter()
            by_cpu = self._submit(images, range(num_by_gpu, num), place)
            padded = torch.empty((num, CELL_SIDE, CELL_SIDE, 3), dtype=torch.uint8, device=self._device)
            by_gpu = self._decode_by_gpu(padded, images.part(range(num_by_gpu))) if num_by_gpu else None
        finally:
            if has_nvjpeg:
                self._nvjpeg.release()
        first = num_by_gpu if by_gpu is not None else 0
        if first < num_by_gpu:  # nvJPEG cannot decode one of them
            self.balance.rest()
            by_cpu = [*self._submit(images, range(num_by_gpu), place), *by_cpu]
        parts = [task.result() for task in by_cpu]
        if by_gpu is not None and parts:
            num_by_cpu, core_s = num - num_by_gpu, sum(part.seconds for part in parts)
            cpu_per_s = num_by_cpu / (time.perf_counter() - begin)
            self.balance.note(num_by_gpu / by_gpu.seconds, cpu_per_s, core_per_s=num_by_cpu / core_s)
        padded[first:].copy_(place.cells[first:num], non_blocking=True)
        for part in parts:
            self._problems.note(part.problems)
        return padded, _join([by_gpu, *parts] if by_gpu is not None else parts)

    def _submit(self, images: ImageList, rows: range, place: _Place) -> list[Future[Crops]]:
        chunks = [rows[at : at + _ROWS_PER_TASK] for at in range(0, len(rows), _ROWS_PER_TASK)]
        return [
            self._pool.submit(
                store_crops,
                images.part(chunk),
                memory=place.memory.path,
                rows=chunk,
                image_size=self._format.image_size,
            )
            for chunk in chunks
        ]

    def _decode_by_gpu(self, padded: Tensor, images: ImageList) -> Crops | None:
        """None if nvJPEG cannot decode one of them: it then refuses the whole list."""
        begin = time.perf_counter()
        files = images.read()
        frames = read_frames(files)
        cuts = images.view.cuts(sizes_of(frames), images.indices, image_size=self._format.image_size)
        is_whole = all(frames) and all(data.endswith(END_OF_IMAGE) for data in files)
        if not is_whole or cuts.places[:, 2:].max() > CELL_SIDE:
            return None
        encoded = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in files]
        try:
            decoded = decode_jpeg(encoded, mode=ImageReadMode.RGB, device=self._device)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            return None
        for row, image in enumerate(decoded):
            top, left, height, width = cuts.places[row].tolist()
            crop = image[:, top : top + height, left : left + width]
            padded[row, :height, :width].copy_(crop.permute(1, 2, 0))
        seconds = time.perf_counter() - begin
        return Crops(boxes=cuts.boxes, flips=cuts.flips, sizes=cuts.places[:, 2:], problems=[], seconds=seconds)

    def _new_place(self, batch_size: int) -> _Place:
        num_bytes = batch_size * _CELL_BYTES
        memory = SharedBytes(num_bytes)
        cells = torch.frombuffer(memory.buffer, dtype=torch.uint8).reshape(batch_size, CELL_SIDE, CELL_SIDE, 3)
        # Pinned, so that the copy to the GPU is asynchronous. If refused (a limit on locked memory), it is slower.
        cudart = torch.cuda.cudart()
        if cudart.cudaHostRegister(cells.data_ptr(), num_bytes, 0) != cudart.cudaError.success:
            with contextlib.suppress(RuntimeError):  # CUDA reports the refusal again at the next call
                torch.zeros(1, device=self._device)
        return _Place(memory=memory, cells=cells)

    def _wait(self) -> None:
        """Sleeping, not spinning as a stream's own synchronize does: the cores are needed for decoding."""
        done = torch.cuda.Event(blocking=True)
        done.record()
        done.synchronize()

    def _stream(self) -> torch.cuda.Stream:
        if self._local.stream is None:
            torch.cuda.set_device(self._device)
            self._local.stream = torch.cuda.Stream(self._device, priority=-1)
        return self._local.stream


def _choose_crop_resize(wanted: Format, problems: Problems, device: torch.device) -> CropResize:
    """The kernel if it can be built; it is built here, on cells of the real size, before the loaders use it."""
    try:
        from trainmark.worker.torch.resample_kernel import crop_resize as by_kernel

        cell = torch.zeros((1, CELL_SIDE, CELL_SIDE, 3), dtype=torch.uint8, device=device)
        side = float(CELL_SIDE)
        by_kernel(cell, torch.tensor([[0.0, 0.0, side, side, side, side, 0.0]], device=device), wanted)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # no Triton, no C compiler or an unknown GPU each raise another error
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        problems.warn(not_compiled(what=no_resize_kernel(why=why)))
        return crop_resize
    torch.cuda.synchronize(device)  # an error while it runs is not an error of building it
    return by_kernel


class Balance:
    """nvJPEG's share of a batch, chosen so that both decoders finish together."""

    def __init__(self) -> None:
        self._share = _START_SHARE
        self._num_off = 0

    def share(self) -> float:
        """Of the next batch. While nvJPEG is slower than its core it is tried only rarely: training may pause."""
        if self._num_off > 0:
            self._num_off -= 1
            return 0.0
        return self._share

    def note(self, gpu_per_s: float, cpu_per_s: float, *, core_per_s: float) -> None:
        """`cpu_per_s`: speed of all cores on their share of this batch; `core_per_s`: speed of one core."""
        if gpu_per_s < core_per_s:
            self.rest()
            return
        wanted = gpu_per_s / (gpu_per_s + cpu_per_s)
        self._share = min(_MAX_SHARE, (1 - _SMOOTHING) * self._share + _SMOOTHING * wanted)

    def rest(self) -> None:
        self._share, self._num_off = _START_SHARE, _RETRY_AFTER


def _join(parts: Sequence[Crops]) -> Crops:
    return Crops(
        boxes=np.concatenate([part.boxes for part in parts]),
        flips=np.concatenate([part.flips for part in parts]),
        sizes=np.concatenate([part.sizes for part in parts]),
        problems=[],
    )
