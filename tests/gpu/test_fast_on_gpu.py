"""Parts of the fast recipe on a GPU: the same functions as the framework's. Skipped without a GPU; CI has none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from making import make_cell, make_images, make_workload_cell
from trainmark.spec.cell import DataSource
from trainmark.worker.images import Crops
from trainmark.worker.torch.engine import TorchEngine
from trainmark.worker.torch.images import Format

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("default"),
]


def test_a_captured_step_tells_the_memory_it_works_in() -> None:
    """An eager step of the same size needs at least as much; a captured one may not look as if it needed none."""
    peaks = {}
    for recipe in ("reference", "fast"):
        cell = make_cell(device="cuda", recipe=recipe, precision="bf16", size="full", batch_size_per_device=64)
        engine = TorchEngine(make_workload_cell(**vars(cell)))
        engine.begin_epoch(0)
        for _ in range(3):
            engine.step()
        engine.wait()
        peaks[recipe] = engine.peak_memory_bytes() or 0
        engine.close()
    assert 0.2 * peaks["reference"] < peaks["fast"] < 1.5 * peaks["reference"]


def test_the_stem_is_the_same_convolution() -> None:
    from trainmark.workloads.torch_stem import SpaceToDepthConv2d

    torch.backends.cudnn.allow_tf32 = False
    plain = torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False).cuda()
    images = torch.randn(4, 3, 224, 224, device="cuda")
    gradient = torch.randn(4, 64, 112, 112, device="cuda")
    wanted = plain(images)
    (wanted_gradient,) = torch.autograd.grad(wanted, plain.weight, gradient)
    stem = SpaceToDepthConv2d.of(plain)
    got = stem(images)
    (got_gradient,) = torch.autograd.grad(got, plain.weight, gradient)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got_gradient, wanted_gradient, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_max_pool_is_the_frameworks(dtype: torch.dtype) -> None:
    from trainmark.workloads.torch_stem import MaxPool3x3Stride2

    x = functional.relu(torch.randn(3, 64, 30, 42, device="cuda").to(dtype)).to(memory_format=torch.channels_last)
    x[0, 0, 3, 3] = float("nan")
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    got, wanted = MaxPool3x3Stride2()(ours), functional.max_pool2d(theirs, 3, 2, 1)
    assert torch.equal(got.nan_to_num(99), wanted.nan_to_num(99))
    gradient = torch.randn_like(wanted)
    got.backward(gradient)
    wanted.backward(gradient)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-2 if dtype is torch.bfloat16 else 1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("channels", "side"), [(256, 28), (2048, 7)])
def test_the_gradients_at_the_end_of_a_block_are_the_frameworks(channels: int, side: int, dtype: torch.dtype) -> None:
    from trainmark.workloads.torch_norm import _join_gradients

    shape = (32, channels, side, side)
    given = [
        torch.randn(shape, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last) for _ in range(4)
    ]
    passed, *sums = _join_gradients(*given)
    wanted, *wanted_sums = _join_gradients(*(tensor.double() for tensor in given))
    torch.testing.assert_close(passed, wanted.to(dtype), rtol=1e-2 if dtype is torch.bfloat16 else 1e-6, atol=1e-6)
    for got, right in zip(sums, wanted_sums, strict=True):
        assert (got - right).norm() <= 1e-5 * right.norm()


def test_the_resize_kernel_is_the_products() -> None:
    """The products round to fp16 in between, to a quarter of a grey level."""
    from trainmark.worker.torch import resample as products
    from trainmark.worker.torch import resample_kernel as kernel

    random = np.random.default_rng(0)
    sizes = random.integers(1, 513, (64, 2))
    begin = np.where(random.random((64, 1)) < 0.5, 0.0, 0.5 * random.random((64, 2)) * sizes)
    boxes = np.hstack([begin, sizes - begin])
    crops = Crops(boxes=boxes, flips=random.random(64) < 0.5, sizes=sizes, problems=[])
    cells = torch.randint(0, 256, (64, 512, 512, 3), dtype=torch.uint8, device="cuda")
    geometry = products.to_geometry(crops).cuda()
    for dtype in (torch.float32, torch.bfloat16):
        wanted = Format(image_size=224, mean=(0.0,) * 3, std=(1 / 255,) * 3, dtype=dtype, channels_last=True)
        apart = (kernel.crop_resize(cells, geometry, wanted) - products.crop_resize(cells, geometry, wanted)).abs()
        assert apart.max() < (0.5 if dtype is torch.float32 else 2)


def test_images_on_the_gpu_are_those_of_the_cpu(tmp_path: Path) -> None:
    """nvJPEG, the host's cores and the batched resize against Pillow: a few grey levels apart."""
    root = make_images(tmp_path, per_class=16)
    victim = root / "train" / "class0" / "3.jpg"
    victim.write_bytes(victim.read_bytes()[:500])
    batches = {}
    for device in ("cpu", "cuda"):
        cell = make_cell(device=device, size="small", batch_size_per_device=32, data=DataSource.parse(str(root)))
        engine = TorchEngine(make_workload_cell(**vars(cell)))
        engine._feed.begin_epoch(0)
        inputs, targets = engine._feed.next_batch()
        batches[device] = inputs.float().cpu(), targets.cpu()
        assert [warning.params["path"] for warning in engine.warnings()] == ["train/class0/3.jpg"]
        engine.close()
    assert torch.equal(batches["cpu"][1], batches["cuda"][1])
    apart = (batches["cpu"][0] - batches["cuda"][0]).abs() * 0.225 * 255
    assert apart.mean() < 3  # noise images, chroma upsampled differently by each decoder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("factor", "writes"), [(2, True), (4, True), (8, True), (4, False)])
def test_a_resize_and_its_gradient_are_the_frameworks(factor: int, writes: bool, dtype: torch.dtype) -> None:
    from trainmark.workloads.torch_resize import concatenate_enlarged, enlarge

    coarse = torch.randn(3, 40, 6, 10, device="cuda", requires_grad=True)
    fine = torch.randn(3, 8, 6 * factor, 10 * factor, device="cuda", requires_grad=True)
    size = fine.shape[-2:]
    gradient = torch.randn(3, 48, *size, device="cuda").to(dtype)
    twin_coarse, twin_fine = (x.detach().clone().requires_grad_() for x in (coarse, fine))
    got = concatenate_enlarged([fine.to(dtype), coarse.to(dtype)], writes=writes)
    enlarged = functional.interpolate(twin_coarse, size=size, mode="bilinear", align_corners=False)
    wanted = torch.cat([twin_fine, enlarged], 1)
    tolerance = 2e-2 if dtype is torch.bfloat16 else 1e-4
    torch.testing.assert_close(got.float(), wanted, rtol=tolerance, atol=tolerance)
    got.backward(gradient)
    wanted.backward(gradient.float())
    torch.testing.assert_close(coarse.grad, twin_coarse.grad, rtol=tolerance, atol=30 * tolerance)
    torch.testing.assert_close(fine.grad, twin_fine.grad, rtol=tolerance, atol=tolerance)
    alone = coarse.detach().clone().requires_grad_()
    enlarge(alone, size).backward(gradient[:, 8:].float())
    torch.testing.assert_close(alone.grad, twin_coarse.grad, rtol=1e-4, atol=1e-3)


def test_the_scan_and_the_pooling_of_regions_are_torchvisions() -> None:
    from torchvision.ops import MultiScaleRoIAlign

    from trainmark.workloads.mask_rcnn.torch_choice import suppress
    from trainmark.workloads.mask_rcnn.torch_regions import pool_regions

    corners = 300 * torch.rand(4, 2000, 2, device="cuda")
    boxes = torch.cat([corners, corners + 20 + 60 * torch.rand(4, 2000, 2, device="cuda")], dim=2)
    got = suppress([boxes, boxes[:, :700]], min_side=1e-3, threshold=0.7)
    wanted = suppress([boxes.cpu(), boxes[:, :700].cpu()], min_side=1e-3, threshold=0.7)
    for one, other in zip(got, wanted, strict=True):
        assert (one.cpu() != other).float().mean() < 1e-3  # an overlap of exactly the threshold is rounded either way
        assert 0.1 < one.float().mean() < 0.95
    features = [
        torch.randn(4, 256, 96 >> n, 128 >> n, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
        for n in range(4)
    ]
    theirs = MultiScaleRoIAlign(featmap_names=list("0123"), output_size=7, sampling_ratio=2)
    expected = theirs(dict(zip("0123", features, strict=True)), list(boxes[:, :512]), [(384, 512)] * 4)
    pooled = pool_regions(features, boxes[:, :512], side=7)
    torch.testing.assert_close(pooled, expected, rtol=1e-3, atol=1e-3)
    gradient = torch.randn_like(expected)
    pairs = zip(*(torch.autograd.grad(x, features, gradient) for x in (pooled, expected)), strict=True)
    norms = [(float((one - other).norm()), float(other.norm())) for one, other in pairs]
    assert all(difference <= 1e-3 * whole for difference, whole in norms), norms  # levels without regions: both 0
    assert norms[0][1] > 0
