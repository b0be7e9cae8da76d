from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.transforms import RandomResizedCrop

from trainmark.workloads.resnet50 import data, metric
from trainmark.workloads.resnet50 import torch as workload
from trainmark.workloads.resnet50.card import CARD
from trainmark.workloads.schedules import learning_rate, peak_learning_rate
from trainmark.workloads.torch_norm import SumBatchNorm2d, speed_up_norms


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return workload.build_model(recipe="reference", device_type="cpu", num_classes=1000, size=CARD.sizes["small"])


def test_parameter_count(model: nn.Module) -> None:
    assert sum(p.numel() for p in model.parameters()) == CARD.num_parameters == 25_557_032


def test_v15_has_the_stride_in_the_3x3(model: nn.Module) -> None:
    for stage in (model.layer2, model.layer3, model.layer4):
        assert stage[0].conv1.stride == (1, 1)
        assert stage[0].conv2.stride == (2, 2)


def test_only_batch_norm_is_not_decayed(model: nn.Module) -> None:
    decayed, exempt = workload.parameter_groups(model)
    assert decayed.weight_decay == 1 / 32768
    assert exempt.weight_decay == 0
    assert len(exempt.params) == 2 * sum(isinstance(m, nn.BatchNorm2d) for m in model.modules()) == 106
    assert len(decayed.params) == 53 + 2  # convolutions, and the classifier's weight and bias


def test_label_smoothing_by_hand() -> None:
    """Logits (2, 0), target 0: .95 and .05 of the two log-probabilities' negatives."""
    logits = torch.tensor([[2.0, 0.0]])
    loss = workload.compute_loss(lambda x: x, (logits, torch.tensor([0])))
    log_sum = math.log(math.exp(2) + 1)
    assert loss.item() == pytest.approx(0.95 * (log_sum - 2) + 0.05 * log_sum)


def rate(step: int, **changes: float) -> float:
    facts = {"epochs": 50, "global_batch": 256, **changes}
    peak = peak_learning_rate(CARD.schedule, global_batch=int(facts["global_batch"]))
    return learning_rate(CARD.schedule, peak=peak, step=step, num_steps=100 * facts["epochs"])


def test_schedule() -> None:
    assert rate(0) == pytest.approx(0.256 / 800)
    assert rate(399) == pytest.approx(0.128)
    assert rate(799) == pytest.approx(0.256)
    assert rate(800 + 2100 - 1) == pytest.approx(0.128)  # half-way through the cosine
    assert rate(4999) == pytest.approx(0.0, abs=1e-9)
    assert rate(799, global_batch=1024) == pytest.approx(1.024)  # linear in the global batch


def test_a_short_run_keeps_the_share_of_warm_up() -> None:
    assert rate(159, epochs=10) == pytest.approx(0.256)  # 1.6 epochs of 100 steps
    assert rate(999, epochs=10) == pytest.approx(0.0, abs=1e-9)


def test_train_views_are_inside_and_depend_on_the_index_alone() -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(250, 500, (2000, 2))
    indices = np.arange(2000)
    boxes, flips = data.train_view(sizes, seed=1, epoch=3, indices=indices)
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] >= 1).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= sizes).all()
    some = [7, 1999, 500]
    again, again_flips = data.train_view(sizes[some], seed=1, epoch=3, indices=indices[some])
    np.testing.assert_array_equal(again, boxes[some])
    np.testing.assert_array_equal(again_flips, flips[some])
    other, _ = data.train_view(sizes, seed=1, epoch=4, indices=indices)
    assert (other != boxes).any(axis=1).mean() > 0.99


def test_train_views_have_the_recipes_distribution() -> None:
    sizes = np.full((20_000, 2), (375, 500))
    boxes, flips = data.train_view(sizes, seed=0, epoch=0, indices=np.arange(20_000))
    area = boxes[:, 2] * boxes[:, 3] / (375 * 500)
    ratio = boxes[:, 3] / boxes[:, 2]
    assert 0.45 < flips.mean() < 0.55
    assert 0.07 < area.min() < 0.1
    assert area.max() > 0.95
    torchs = [RandomResizedCrop.get_params(torch.empty(3, 375, 500), (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(5000)]
    assert area.mean() == pytest.approx(np.mean([h * w for _, _, h, w in torchs]) / (375 * 500), rel=0.03)
    assert boxes[:, 0].mean() == pytest.approx(np.mean([top for top, *_ in torchs]), rel=0.05)
    assert 0.73 < ratio.min() < 0.77
    assert 1.30 < ratio.max() < 1.36


def test_a_very_narrow_image_gets_its_centre() -> None:
    boxes, _ = data.train_view(np.array([[10, 1000]]), seed=0, epoch=0, indices=np.array([0]))
    assert tuple(boxes[0]) == (0, 493, 10, 13)


def test_eval_view_is_seven_eighths_of_the_short_side() -> None:
    """375 x 500 becomes 256 x 341 and the cut begins at 58, since 58.5 is rounded to even."""
    boxes, flips = data.eval_view(np.array([[256, 512], [375, 500]]), image_size=224)
    wide = 500 / 341
    np.testing.assert_allclose(boxes, [[16, 144, 224, 224], [23.4375, 58 * wide, 328.125, 224 * wide]])
    assert not flips.any()


def test_top1_and_top5_counts() -> None:
    logits = torch.arange(10.0).repeat(3, 1)
    counts = workload.score(lambda x: x, (logits, torch.tensor([9, 5, 4])))
    assert counts.tolist() == [3, 1, 2]
    assert metric.summarise(counts.numpy(), None) == {"top1": pytest.approx(1 / 3), "top5": pytest.approx(2 / 3)}
    assert metric.summarise(np.zeros(3), None) == {}


def test_synthetic_batches_are_seeded() -> None:
    make = lambda seed: workload.synthetic_batch(  # noqa: E731
        batch_size=2, size=CARD.sizes["small"], num_classes=10, generator=torch.Generator().manual_seed(seed)
    )
    assert torch.equal(make(1)[0], make(1)[0])
    assert not torch.equal(make(1)[0], make(2)[0])


def test_the_fast_norm_is_batch_norm() -> None:
    """Outputs, gradients and running statistics, in training and in evaluation."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(8)
    nn.init.uniform_(norm.weight)
    nn.init.normal_(norm.bias)
    twin = SumBatchNorm2d.of(copy.deepcopy(norm))
    x = (3 * torch.randn(4, 8, 6, 5) + 1).requires_grad_()
    y = x.detach().clone().requires_grad_()
    gradient = torch.randn(4, 8, 6, 5)
    for _ in range(3):
        norm(x).backward(gradient)
        twin(y).backward(gradient)
    torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(twin.weight.grad, norm.weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(twin.running_var, norm.running_var)
    torch.testing.assert_close(twin.running_mean, norm.running_mean)
    torch.testing.assert_close(twin.eval()(y), norm.eval()(x), rtol=1e-4, atol=1e-5)


def test_speeding_up_the_norms_keeps_names_and_parameters(model: nn.Module) -> None:
    fast = copy.deepcopy(model)
    before = {name: id(p) for name, p in fast.named_parameters()}
    speed_up_norms(fast, uses=())
    assert {name: id(p) for name, p in fast.named_parameters()} == before
    assert set(fast.state_dict()) == set(model.state_dict())
    assert sum(type(m) is SumBatchNorm2d for m in fast.modules()) == 53
    assert len(workload.parameter_groups(fast)[1].params) == 106
