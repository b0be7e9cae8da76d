"""Crops in shared memory, as the decoding processes of a GPU's loader write them."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.functional import center_crop, resize, resized_crop

from making import read_pixels
from trainmark.datasets.jpeg import encode_jpeg
from trainmark.worker.images import CELL_SIDE, ImageList, SharedBytes, View, crop_resize_one, num_decoders, store_crops
from trainmark.worker.samples import Problems
from trainmark.worker.torch.images import CpuImages, Format
from trainmark.workloads.resnet50.data import CROPS


def images_in(root: Path, *, sizes: list[tuple[int, int]], epoch: int | None = 3) -> ImageList:
    rng = np.random.default_rng(0)
    for number, (height, width) in enumerate(sizes):
        low = rng.integers(0, 255, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
        pixels = np.ascontiguousarray(low.repeat(16, 0).repeat(16, 1)[:height, :width])
        (root / f"{number}.jpg").write_bytes(encode_jpeg(pixels, quality=95))
    paths = tuple(f"{number}.jpg" for number in range(len(sizes)))
    view = View(crops=CROPS, seed=1, epoch=epoch)
    return ImageList(root=str(root), paths=paths, indices=np.arange(len(sizes)), view=view)


@pytest.mark.parametrize("epoch", [3, None])
def test_a_process_leaves_the_crops_that_the_view_asks_for(tmp_path: Path, epoch: int | None) -> None:
    images = images_in(tmp_path, sizes=[(375, 500), (200, 300), (1400, 1300)], epoch=epoch)
    (tmp_path / "1.jpg").write_bytes(b"not a picture")
    memory = SharedBytes(5 * CELL_SIDE * CELL_SIDE * 3)
    assert str(Path(memory.path).readlink()).startswith("/memfd:"), "a file would outlive a killed run"
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            crops = pool.submit(store_crops, images, memory=memory.path, rows=[1, 2, 4], image_size=64).result()
        cells = np.ndarray((5, CELL_SIDE, CELL_SIDE, 3), np.uint8, memory.buffer).copy()
    finally:
        memory.close()
    assert crops.seconds > 0
    assert [path for path, _ in crops.problems] == ["1.jpg"]
    sizes = np.array([(375, 500), (64, 64), (1400, 1300)])
    boxes, flips = images.view.boxes(sizes, images.indices, image_size=64)
    assert (crops.flips == flips).all()
    for position, row in ((0, 1), (2, 4)):
        whole = read_pixels(tmp_path / images.paths[position])
        height, width = crops.sizes[position]
        found = crop_resize_one(cells[row, :height, :width], crops.boxes[position], False, 64)
        wanted = as_torchvision(whole, boxes[position], is_training=epoch is not None, size=64)
        assert np.abs(wanted.astype(int) - found).max() <= 1
    assert tuple(crops.sizes[2]) == ((64, 64) if boxes[2, 2:].max() > CELL_SIDE else tuple(crops.sizes[2]))


def as_torchvision(image: np.ndarray, box: np.ndarray, *, is_training: bool, size: int) -> np.ndarray:
    picture = Image.fromarray(image)
    if is_training:
        top, left, height, width = (int(value) for value in box)
        return np.asarray(resized_crop(picture, top, left, height, width, [size, size]))
    return np.asarray(center_crop(resize(picture, [round(size * 256 / 224)]), [size, size]))


@pytest.mark.parametrize("epoch", [3, None])
def test_the_cpu_sees_what_torchvision_does(tmp_path: Path, epoch: int | None) -> None:
    images = images_in(tmp_path, sizes=[(375, 500), (90, 60), (200, 301), (50, 70), (333, 500)], epoch=epoch)
    wanted = Format(image_size=64, mean=(0.0,) * 3, std=(1 / 255,) * 3, dtype=torch.float32, channels_last=False)
    prepared = CpuImages(wanted, Problems())
    labels = np.arange(len(images.paths))
    inputs, targets = prepared.prepare(images, labels)
    batch = inputs.permute(0, 2, 3, 1).numpy()
    assert targets.tolist() == labels.tolist()
    prepared.close()
    pictures = [read_pixels(tmp_path / path) for path in images.paths]
    sizes = np.array([picture.shape[:2] for picture in pictures])
    boxes, flips = images.view.boxes(sizes, images.indices, image_size=64)
    for found, picture, box, flip in zip(batch, pictures, boxes, flips, strict=True):
        seen = as_torchvision(picture, box, is_training=epoch is not None, size=64)
        apart = np.abs(found - (seen[:, ::-1] if flip else seen)).max()
        assert apart < (0.01 if epoch is not None else 1.01), "Pillow rounds weights, and those of a part otherwise"


@pytest.mark.parametrize(
    ("bound", "num"), [(None, 4), ("", 4), ("none", 4), ("mask_cpu:", 16), ("map_cpu:", 16), ("mask_ldom:", 4)]
)
def test_cores_are_shared_unless_slurm_gave_each_rank_its_own(
    bound: str | None, num: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.worker.images.num_cores", lambda: 16)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    if bound is None:
        monkeypatch.delenv("SLURM_CPU_BIND_TYPE", raising=False)
    else:
        monkeypatch.setenv("SLURM_CPU_BIND_TYPE", bound)
    assert num_decoders() == num
