"""Decoding processes, shared memory and the resize of the GPU's loader, with a device that is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from making import make_images
from trainmark.worker.images import ImageList, View
from trainmark.worker.samples import Problems
from trainmark.worker.torch.gpu_images import Balance, GpuImages
from trainmark.worker.torch.images import CpuImages, Format
from trainmark.workloads.resnet50.data import CROPS

FORMAT = Format(
    image_size=32, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), dtype=torch.float32, channels_last=True
)


@pytest.fixture(autouse=True)
def _without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams, pinned memory and nvJPEG are a GPU's own; all else is real."""
    runtime = SimpleNamespace(
        cudaHostRegister=lambda *_: 0, cudaHostUnregister=lambda *_: 0, cudaError=SimpleNamespace(success=0)
    )
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(GpuImages, "_stream", lambda _: None)
    monkeypatch.setattr(GpuImages, "_wait", lambda _: None)
    monkeypatch.setattr(Balance, "share", lambda _: 0.0)
    monkeypatch.setattr("trainmark.worker.torch.gpu_images.num_decoders", lambda: 2)


@contextlib.contextmanager
def gpu_images(problems: Problems, *, batch_size: int) -> Iterator[GpuImages]:
    images = GpuImages(FORMAT, problems, torch.device("cpu"), batch_size=batch_size, num_loaders=1)
    try:
        yield images
    finally:
        images.close()


def some_images(folder: Path, *, epoch: int | None) -> ImageList:
    root = make_images(folder, per_class=8)
    paths = tuple(sorted(str(path.relative_to(root)) for path in (root / "train").rglob("*.jpg")))
    view = View(crops=CROPS, seed=0, epoch=epoch)
    return ImageList(root=str(root), paths=paths, indices=np.arange(len(paths)), view=view)


@pytest.mark.parametrize("epoch", [0, None])
def test_the_batch_is_that_of_the_cpu(tmp_path: Path, epoch: int | None) -> None:
    images = some_images(tmp_path, epoch=epoch)
    labels, problems = np.arange(len(images.paths)), Problems()
    with gpu_images(problems, batch_size=len(labels)) as prepared:
        batch, targets = prepared.prepare(images, labels)
    wanted, _ = CpuImages(FORMAT, problems).prepare(images, labels)
    assert targets.tolist() == labels.tolist()
    assert batch.stride() == wanted.stride()
    grey_levels = (batch - wanted).abs().max() * 255 * max(FORMAT.std)
    assert grey_levels < 1.0  # Pillow rounds between its two passes


def test_a_decoder_that_is_killed_is_the_reason(tmp_path: Path) -> None:
    images = some_images(tmp_path, epoch=0)
    with gpu_images(Problems(), batch_size=len(images.paths)) as prepared:
        labels = np.arange(len(images.paths))
        prepared.prepare(images, labels)
        for decoder in list(prepared._pool._processes.values()):
            decoder.kill()
            decoder.join()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="decodes images was ended from outside"):
                prepared.prepare(images, labels)
