"""The two batched resizes against Pillow and each other. Triton's interpreter runs the kernel without a GPU."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from trainmark.worker.images import Crops, crop_resize_one
from trainmark.worker.torch import resample as products
from trainmark.worker.torch.gpu_images import CropResize
from trainmark.worker.torch.images import Format

PLAIN = Format(image_size=32, mean=(0.0,) * 3, std=(1 / 255,) * 3, dtype=torch.float32, channels_last=False)


@pytest.fixture(params=["products", "kernel"])
def crop_resize(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CropResize:
    return products.crop_resize if request.param == "products" else interpreted(monkeypatch)


def interpreted(monkeypatch: pytest.MonkeyPatch) -> CropResize:
    """A copy of the kernel's module, made while Triton takes kernels for Python."""
    if find_spec("triton") is None:
        pytest.skip("Triton comes with PyTorch for NVIDIA GPUs only")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    path = Path(products.__file__).with_name("resample_kernel.py")
    spec = spec_from_file_location("interpreted_kernel", path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: CropResize = module.crop_resize
    return found


def make_crops(boxes: list[list[float]], sizes: list[list[int]], flips: list[bool]) -> Crops:
    return Crops(boxes=np.array(boxes, dtype=np.float64), flips=np.array(flips), sizes=np.array(sizes), problems=[])


def test_it_is_pillows(crop_resize: CropResize) -> None:
    """Antialiased resize of a box, which sees beyond it, and flip: to a grey level and a half."""
    random = np.random.default_rng(0)
    noise = Image.fromarray(random.integers(0, 255, (40, 50, 3), dtype=np.uint8))
    image = np.asarray(noise.resize((250, 187), Image.Resampling.BICUBIC))
    boxes = [[10.0, 20.0, 150.0, 200.0], [0.0, 0.0, 187.0, 250.0], [100.0, 50.0, 20.0, 25.0]]
    flips = [False, True, True]
    padded = torch.zeros(3, 200, 256, 3, dtype=torch.uint8)
    padded[:, :187, :250] = torch.from_numpy(image.copy())
    geometry = products.to_geometry(make_crops(boxes, [[187, 250]] * 3, flips))
    got = crop_resize(padded, geometry, PLAIN)
    for row in range(3):
        wanted = crop_resize_one(image, np.array(boxes[row]), flips[row], 32).transpose(2, 0, 1)
        assert np.abs(got[row].numpy() - wanted.astype(float)).max() < 1.5


def test_what_lies_beyond_a_crop_is_not_seen(crop_resize: CropResize) -> None:
    """Memory is used again, so the pixels there are of an older image; a box may end a rounding beyond its crop."""
    sizes = [[20, 30], [33, 17]]
    boxes = [[0.25, 0.5, 19.750002, 29.500002], [0.0, 0.0, 33.0, 17.0]]
    geometry = products.to_geometry(make_crops(boxes, sizes, [True, False]))
    got = []
    for beyond in (0, 255):
        padded = torch.full((2, 40, 40, 3), beyond, dtype=torch.uint8)
        for row, (height, width) in enumerate(sizes):
            padded[row, :height, :width] = 100
        got.append(crop_resize(padded, geometry, PLAIN))
    assert torch.equal(got[0], got[1])
    assert (got[0] - 100).abs().max() < 1e-3


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernel_and_products_are_one_function(
    dtype: torch.dtype, channels_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    num, height, width = 12, 97, 130
    sizes = np.column_stack([random.integers(1, height + 1, num), random.integers(1, width + 1, num)])
    begin = random.random((num, 2)) * 0.9 * sizes
    extent = np.maximum(random.random((num, 2)) * (sizes - begin), 0.01)
    flips = random.random(num) < 0.5
    geometry = products.to_geometry(make_crops(np.hstack([begin, extent]).tolist(), sizes.tolist(), flips.tolist()))
    padded = torch.from_numpy(random.integers(0, 256, (num, 100, 140, 3), dtype=np.uint8))[:, :height, :width]
    wanted = Format(image_size=20, mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3), dtype=dtype, channels_last=channels_last)
    by_products = products.crop_resize(padded, geometry, wanted)
    by_kernel = interpreted(monkeypatch)(padded, geometry, wanted)
    assert by_kernel.dtype == dtype
    assert by_kernel.stride() == by_products.stride()
    tolerance = 1e-4 if dtype is torch.float32 else 2**-6
    torch.testing.assert_close(by_kernel, by_products, rtol=0, atol=tolerance)
