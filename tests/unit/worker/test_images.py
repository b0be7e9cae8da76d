"""Crops in shared memory, as the decoding processes of a GPU's loader write them."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, shared_memory
from pathlib import Path

import numpy as np
import pytest

from making import read_pixels
from trainmark.datasets.jpeg import encode_jpeg
from trainmark.worker.images import CELL_SIDE, ImageList, View, crop_resize_one, store_crops


def images_in(root: Path, *, sizes: list[tuple[int, int]], epoch: int | None = 3) -> ImageList:
    rng = np.random.default_rng(0)
    for number, (height, width) in enumerate(sizes):
        low = rng.integers(0, 255, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
        pixels = np.ascontiguousarray(low.repeat(16, 0).repeat(16, 1)[:height, :width])
        (root / f"{number}.jpg").write_bytes(encode_jpeg(pixels, quality=95))
    paths = tuple(f"{number}.jpg" for number in range(len(sizes)))
    view = View(workload="resnet50", seed=1, epoch=epoch)
    return ImageList(root=str(root), paths=paths, indices=np.arange(len(sizes)), view=view)


@pytest.mark.parametrize("epoch", [3, None])
def test_a_process_leaves_the_crops_that_the_view_asks_for(tmp_path: Path, epoch: int | None) -> None:
    images = images_in(tmp_path, sizes=[(375, 500), (200, 300), (1400, 1300)], epoch=epoch)
    (tmp_path / "1.jpg").write_bytes(b"not a picture")
    memory = shared_memory.SharedMemory(create=True, size=5 * CELL_SIDE * CELL_SIDE * 3)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            crops = pool.submit(store_crops, images, memory=memory.name, rows=[1, 2, 4], image_size=64).result()
        cells = np.ndarray((5, CELL_SIDE, CELL_SIDE, 3), np.uint8, memory.buf).copy()
    finally:
        memory.close()
        memory.unlink()
    assert [path for path, _ in crops.problems] == ["1.jpg"]
    sizes = np.array([(375, 500), (64, 64), (1400, 1300)])
    boxes, flips = images.view.boxes(sizes, images.indices)
    assert (crops.flips == flips).all()
    for position, row in ((0, 1), (2, 4)):
        whole = read_pixels(tmp_path / images.paths[position])
        wanted = crop_resize_one(whole, boxes[position], False, 64)
        height, width = crops.sizes[position]
        found = crop_resize_one(cells[row, :height, :width], crops.boxes[position], False, 64)
        apart = np.abs(wanted.astype(int) - found)
        assert apart[1:-1, 1:-1].max() <= 1  # at the edge the filter sees pixels outside the cut, or does not
        assert apart.mean() < 1
    assert tuple(crops.sizes[2]) == ((64, 64) if boxes[2, 2:].max() > CELL_SIDE else tuple(crops.sizes[2]))
