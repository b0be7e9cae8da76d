"""Mask R-CNN with fixed shapes is the reference: the same proposals, the same choices, losses and gradients."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torchvision.ops import MultiScaleRoIAlign, nms

from trainmark.workloads.card import ImageSize
from trainmark.workloads.loss import total_loss
from trainmark.workloads.mask_rcnn import torch as workload
from trainmark.workloads.mask_rcnn import torch_choice, torch_regions
from trainmark.workloads.mask_rcnn.card import CARD, batch_shape, buckets_of
from trainmark.workloads.mask_rcnn.torch_choice import _overlap_bits, suppress
from trainmark.workloads.mask_rcnn.torch_regions import pool_regions
from trainmark.workloads.mask_rcnn.torch_static import StaticRCNN

TINY = ImageSize(height=64, width=96, flops_per_sample=1.0, batch_size=1)


def build(recipe: str) -> nn.Module:
    torch.manual_seed(0)
    model = workload.build_model(recipe=recipe, device_type="cuda", num_classes=5, size=TINY).train()
    for layer in (model.rpn.head.cls_logits, model.rpn.head.bbox_pred):  # proposals that differ from their anchors
        nn.init.normal_(layer.weight, std=0.05)
    return model


def make_batch(num_objects: tuple[int, ...]) -> workload.Batch:
    generator = torch.Generator().manual_seed(1)
    batch = workload.synthetic_batch(batch_size=len(num_objects), size=TINY, num_classes=5, generator=generator)
    for target, count in zip(batch["targets"], num_objects, strict=True):
        target.update({name: target[name][:count] for name in ("boxes", "labels", "masks")})
        target["anchor_keys"] = torch.rand(6000, generator=generator)
        target["region_keys"] = torch.rand(6000, generator=generator)
    return batch


def test_losses_and_gradients_are_those_of_the_reference() -> None:
    """With as many objects in one image as there are places, and few in the other."""
    reference, fast, batch = build("reference"), build("fast"), make_batch((7, 2))
    _, wanted = workload.examine(reference, batch)
    _, got = workload.examine(fast, workload.arrange(fast, batch))
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        torch.testing.assert_close(got[name], value, rtol=1e-5, atol=1e-6, msg=name)
    total_loss(wanted).backward()
    total_loss(got).backward()
    twins = dict(fast.named_parameters())
    for name, parameter in reference.named_parameters():
        twin = twins[name].grad
        assert (twin is None) == (parameter.grad is None), name
        if twin is not None and parameter.grad is not None:
            assert (twin - parameter.grad).norm() <= 1e-3 * parameter.grad.norm() + 1e-7, name


def test_an_image_without_objects_is_all_background() -> None:
    fast = build("fast")
    _, terms = workload.examine(fast, workload.arrange(fast, make_batch((0, 0))))
    assert all(torch.isfinite(value) for value in terms.values())
    assert terms["loss_mask"] == terms["loss_box_reg"] == terms["loss_rpn_box_reg"] == 0
    assert terms["loss_classifier"] > 0


def test_batches_have_few_shapes() -> None:
    fast = build("fast")
    assert isinstance(fast, StaticRCNN)
    arranged = workload.arrange(fast, make_batch((3, 1)))
    assert arranged["pixels"].shape == (2, 3, 64, 96)
    assert arranged["labels"].tolist()[1][1:] == [0] * 7
    assert [batch_shape([size], 1, fast.buckets)[:2] for size in ((64, 64), (64, 100), (96, 64), (100, 100))] == [
        (64, 96), (64, 128), (96, 64), (128, 128),
    ]  # fmt: skip
    assert buckets_of(CARD.sizes["full"]) == ((800, 1216), (800, 1344), (1216, 800), (1344, 800), (1344, 1344))


def test_a_blank_batch_is_to_the_compiler_what_a_batch_of_data_is() -> None:
    fast = build("fast")
    batch = make_batch((3, 1))
    for target in batch["targets"]:
        del target["anchor_keys"], target["region_keys"]
    arranged = workload.arrange(fast, batch)
    randomness = torch.get_rng_state()
    blank = workload.make_blank(fast, batch_shape([(64, 96)], 3, fast.buckets), batch_size=2)
    assert torch.equal(torch.get_rng_state(), randomness)

    def seen(batch: dict[str, Tensor]) -> dict[str, object]:
        return {name: (x.shape, x.stride(), x.dtype, x.device, x.requires_grad) for name, x in batch.items()}

    assert seen(blank) == seen(arranged)
    assert workload.compute_loss(fast, blank).isfinite()


def random_boxes(*shape: int, side: float = 256.0) -> Tensor:
    corners = torch.rand(*shape, 2) * side
    return torch.cat([corners, corners + torch.rand(*shape, 2) ** 3 * side], dim=-1)


def test_regions_of_all_levels_are_pooled_as_by_torchvision() -> None:
    torch.manual_seed(0)
    shapes = [(2, 8, 64 >> level, 96 >> level) for level in range(4)]
    features = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    boxes = random_boxes(2, 40).double()
    theirs = MultiScaleRoIAlign(featmap_names=["0", "1", "2", "3"], output_size=7, sampling_ratio=2)
    named = {str(number): level for number, level in enumerate(features)}
    wanted = theirs(named, list(boxes), [(256, 384)] * 2)
    got = pool_regions(features, boxes, side=7)
    torch.testing.assert_close(got, wanted)
    gradient = torch.randn_like(wanted)
    expected = torch.autograd.grad(wanted, features, gradient)
    found = torch.autograd.grad(got, features, gradient)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A copy of the kernels' module, made while Triton takes kernels for Python."""
    if find_spec("triton") is None:
        pytest.skip("Triton comes with PyTorch for NVIDIA GPUs only")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    path = Path(torch_regions.__file__).with_name("torch_kernel.py")
    source = path.read_text().replace("trainmark::", "trainmark_interpreted::")
    module = ModuleType("interpreted_kernel")
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def test_the_scan_keeps_what_torchvision_keeps(kernel: ModuleType) -> None:
    torch.manual_seed(0)
    corners = 30 * torch.rand(2, 128, 2)
    boxes, is_valid = torch.cat([corners, corners + 5 + torch.rand(2, 128, 2)], dim=2), torch.rand(2, 128) < 0.9
    kept = torch.empty(2, 4, dtype=torch.int32)
    kernel._scan_kernel[(2,)](_overlap_bits(boxes, 0.3), is_valid.to(torch.uint8), kept, WORDS=4)
    got = ((kept[..., None] >> torch.arange(32)) & 1).flatten(1) != 0
    assert torch.equal(got, torch_choice._suppress_on_host(boxes, is_valid, 0.3))
    assert 0.2 < got.float().mean() < 0.8
    order = torch.arange(128, 0, -1).float()
    assert torch.equal(torch.where(suppress([boxes[:1]], min_side=0, threshold=0.3)[0][0])[0],
                       nms(boxes[0], order, 0.3).sort().values)  # fmt: skip


def test_the_gradient_of_pooled_regions(kernel: ModuleType) -> None:
    torch.manual_seed(0)
    gradient, weights = torch.randn(6, 16), torch.rand(6, 16)
    rows = torch.randint(0, 9, (6, 16))
    got = torch.zeros(9, 16)
    kernel._spread_kernel[(2,)](gradient, rows, weights, got, 6, CHANNELS=16, SAMPLES=16, BINS=4)
    parts = (gradient[:, None] * weights[..., None]).flatten(0, 1)
    torch.testing.assert_close(got, torch.zeros(9, 16).index_add_(0, rows.flatten(), parts), rtol=1e-4, atol=1e-5)
