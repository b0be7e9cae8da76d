from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainmark.datasets.cityscapes.labels import IGNORED
from trainmark.datasets.cityscapes.make import make_cityscapes
from trainmark.datasets.cityscapes.read import load_pair
from trainmark.datasets.png import encode_png
from trainmark.worker.torch.ranks import sync_batch_norms
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import UnusableSampleError
from trainmark.workloads.hrnet_w18 import augment, data, metric
from trainmark.workloads.hrnet_w18 import torch as workload
from trainmark.workloads.hrnet_w18.card import CARD
from trainmark.workloads.hrnet_w18.torch_network import Exchange, Network
from trainmark.workloads.schedules import learning_rate, peak_learning_rate
from trainmark.workloads.torch import to_tensors
from trainmark.workloads.torch_same import SameConv2d

ROOT = Path(__file__).parents[3]
SMALL = CARD.sizes["small"]


def collate(samples: Any) -> Any:
    return to_tensors(data.StreetScenes.collate(samples))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return workload.build_model(recipe="reference", device_type="cpu", num_classes=19, size=SMALL)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Its many small layers gain nothing from a second thread, and lose much where the cores are shared."""
    torch.set_num_threads(1)


def fixed_logits(logits: Tensor) -> nn.Module:
    class Fixed(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return logits

    return Fixed()


# -- model -------------------------------------------------------------------------------------------------------------


def test_parameter_count(model: nn.Module) -> None:
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == CARD.num_parameters == 9_640_830


def test_the_stages_have_the_recipes_modules_and_branches(model: Network) -> None:
    stages = (model.stage2, model.stage3, model.stage4)
    assert [(len(stage), len(stage[0].branches)) for stage in stages] == [(1, 2), (4, 3), (3, 4)]
    assert not any(
        p.ndim == 1 for module in model.modules() if isinstance(module, nn.Conv2d) for p in module.parameters()
    )


def test_norms_that_are_synced_over_gpus_train_and_leave_the_same_state(model: nn.Module) -> None:
    synced = sync_batch_norms(copy.deepcopy(model)).train()
    synced(torch.randn(2, 3, 64, 64))  # one process: no exchange, but all that comes before it
    assert sum(isinstance(module, nn.SyncBatchNorm) for module in synced.modules()) == 306
    assert synced.state_dict().keys() == model.state_dict().keys()


def test_the_exchange_is_full() -> None:
    """Every branch's output changes when any one branch's input does."""
    torch.manual_seed(0)
    module = Exchange(3).eval()
    inputs = [torch.randn(1, width, 16 >> n, 16 >> n) for n, width in enumerate((18, 36, 72))]
    before = module(inputs)
    for changed in range(3):
        after = module([x + 1 if n == changed else x for n, x in enumerate(inputs)])
        assert all(not torch.allclose(a, b) for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize("shape", [(64, 128), (37, 50)])
def test_scores_have_the_size_of_the_image(model: nn.Module, shape: tuple[int, int]) -> None:
    model.eval()
    with torch.no_grad():
        assert model(torch.randn(1, 3, *shape)).shape == (1, 19, *shape)
    model.train()


def test_every_parameter_learns_and_is_decayed(model: nn.Module) -> None:
    batch = workload.synthetic_batch(
        batch_size=2, size=SMALL, num_classes=19, generator=torch.Generator().manual_seed(0)
    )
    workload.compute_loss(model, batch).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    [group] = workload.parameter_groups(model)
    assert group.weight_decay == 5e-4
    assert len(group.params) == len(list(model.parameters()))
    model.zero_grad()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_trains_on_the_cpu(model: nn.Module, dtype: torch.dtype) -> None:
    batch = workload.synthetic_batch(
        batch_size=2, size=SMALL, num_classes=19, generator=torch.Generator().manual_seed(0)
    )
    with torch.autocast("cpu", dtype):
        loss = workload.compute_loss(model, batch)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(np.log(19), rel=0.1)
    model.zero_grad()


@pytest.fixture(scope="module")
def parity() -> ModuleType:
    """scripts/hrnet_parity.py, which compares with PaddleSeg itself and wrote the facts."""
    spec = importlib.util.spec_from_file_location("hrnet_parity", ROOT / "scripts" / "hrnet_parity.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", ["2x3x64x96", "2x3x75x50"])
def test_outputs_and_gradients_are_paddlesegs(parity: ModuleType, shape: str) -> None:
    facts = json.loads((ROOT / "tests" / "fixtures" / "hrnet_paddleseg.json").read_text(encoding="utf-8"))[shape]
    sides = tuple(int(side) for side in shape.split("x"))
    found, limit = parity.facts_of(parity.run_ours(sides)), parity.LIMITS[sides]
    assert found["logits"] == pytest.approx(facts["logits"], rel=limit, abs=limit)
    assert len(facts["norms"]) > 20
    assert found["norms"] == pytest.approx(facts["norms"], rel=limit)


def test_every_halving_has_paddles_padding(model: nn.Module) -> None:
    halvings = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.stride == (2, 2)]
    assert len(halvings) == 52
    assert all(isinstance(halving, SameConv2d) for halving in halvings)


@pytest.mark.parametrize(("side", "seen"), [(8, [[0, 1, 2], [6, 7]]), (7, [[0, 1], [5, 6]])])
def test_same_padding_by_hand(side: int, seen: list[list[int]]) -> None:
    """Which pixels the first and the last output of a 3x3 of stride 2 see."""
    halving = SameConv2d(1, 1, 3, 2, bias=False)
    nn.init.ones_(halving.weight)
    image = torch.zeros(1, 1, side, side, requires_grad=True)
    row = halving(image)[0, 0, 1]
    assert len(row) == 4
    for output, pixels in zip((row[0], row[-1]), seen, strict=True):
        (gradient,) = torch.autograd.grad(output, image, retain_graph=True)
        assert gradient[0, 0].sum(0).nonzero().flatten().tolist() == pixels


# -- loss and metric ---------------------------------------------------------------------------------------------------


def as_batch(labels: list[list[int]]) -> workload.Batch:
    tensor = torch.tensor([labels], dtype=torch.uint8)
    return [(torch.zeros(*tensor.shape, 3, dtype=torch.uint8), tensor)]


def test_loss_by_hand() -> None:
    """Two classes; one pixel with logits (1, 0) and truth 0, one with (0, 0) and truth 1, two ignored."""
    logits = torch.zeros(1, 2, 2, 2)
    logits[0, 0, 0, 0] = 1.0
    logits[0, 0, 1, :] = 50.0
    loss = workload.compute_loss(fixed_logits(logits), as_batch([[0, 1], [255, 255]]))
    assert loss.item() == pytest.approx((np.log(1 + np.exp(-1)) + np.log(2)) / 2)


def test_a_batch_of_ignored_pixels_has_loss_zero_and_gradient_zero() -> None:
    logits = torch.randn(1, 2, 2, 2, requires_grad=True)
    loss = workload.compute_loss(fixed_logits(logits), as_batch([[255, 255], [255, 255]]))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert logits.grad.abs().max() == 0


def test_confusion_and_miou_by_hand() -> None:
    """Truth 0 0 1 1 and one ignored; predicted 0 1 1 1: IoU 1/2 and 2/3."""
    logits = torch.zeros(1, 2, 1, 5)
    logits[0, :, 0] = torch.tensor([[1.0, 0, 0, 0, 1], [0, 1, 1, 1, 0]])
    confusion = workload.score(fixed_logits(logits), as_batch([[0, 0, 1, 1, 255]]))
    assert confusion.dtype == torch.float64
    assert confusion.tolist() == [[1, 1], [0, 2]]
    metrics = metric.summarise(confusion.numpy(), None)
    assert metrics == {"miou": pytest.approx((1 / 2 + 2 / 3) / 2), "pixel_accuracy": pytest.approx(3 / 4)}


def test_classes_that_are_nowhere_are_left_out_and_false_alarms_are_not() -> None:
    confusion = np.zeros((3, 3))
    confusion[0] = [6, 2, 0]
    assert metric.summarise(confusion, None)["miou"] == pytest.approx((6 / 8 + 0) / 2)
    assert metric.summarise(np.zeros((3, 3)), None) == {}


class ByBrightness(nn.Module):
    """A class for each step of brightness, pixel by pixel, so that no batch can change the last digit of a score."""

    def forward(self, images: Tensor) -> Tensor:
        return -(images.mean(1, keepdim=True) - torch.linspace(-1, 1, 19)[None, :, None, None]).abs()


def test_scores_of_two_halves_add_up_and_sizes_may_differ() -> None:
    model = ByBrightness()
    rng = np.random.default_rng(0)
    samples = [
        {"image": rng.integers(0, 256, (*s, 3), dtype=np.uint8), "labels": rng.integers(0, 19, s, dtype=np.uint8)}
        for s in ((64, 96), (32, 64), (64, 96), (48, 48))
    ]
    whole = collate(samples)
    assert [labels.shape for _, labels in whole] == [(2, 64, 96), (1, 32, 64), (1, 48, 48)]
    parts = [workload.score(model, collate(samples[start : start + 2])) for start in (0, 2)]
    assert torch.equal(workload.score(model, whole), parts[0] + parts[1])
    assert parts[0].sum() + parts[1].sum() == 2 * 64 * 96 + 32 * 64 + 48 * 48


def test_synthetic_labels_have_the_real_frequencies() -> None:
    size = ImageSize(height=512, width=1024, flops_per_sample=1.0, batch_size=8)
    make = lambda seed: workload.synthetic_batch(  # noqa: E731
        batch_size=4, size=size, num_classes=19, generator=torch.Generator().manual_seed(seed)
    )
    [(images, labels)] = make(1)
    assert images.dtype == labels.dtype == torch.uint8
    assert (images.shape, labels.shape) == ((4, 512, 1024, 3), (4, 512, 1024))
    shares = torch.bincount(labels.flatten().long(), minlength=256) / labels.numel()
    assert shares[0] == pytest.approx(0.337, abs=0.05)
    assert shares[255] == pytest.approx(0.081, abs=0.03)
    assert shares[:19].sum() + shares[255] == pytest.approx(1)
    assert torch.equal(make(1)[0][1], labels)
    assert not torch.equal(make(2)[0][1], labels)


# -- schedule ----------------------------------------------------------------------------------------------------------


def test_the_seeds_schedule() -> None:
    schedule = CARD.schedule
    assert peak_learning_rate(schedule, global_batch=64) == 0.01
    assert peak_learning_rate(schedule, global_batch=128) == 0.02  # as the seed has it for 32 devices of 4
    steps_per_epoch = CARD.num_train_samples / 64
    assert schedule.epochs * steps_per_epoch == pytest.approx(160_000)
    assert schedule.eval_epochs * steps_per_epoch == pytest.approx(2_000)
    half = learning_rate(schedule, peak=0.01, step=80_000, num_steps=160_000)
    assert half == pytest.approx(0.01 * 0.5**0.9)


# -- augmentation ------------------------------------------------------------------------------------------------------


def test_scales_are_the_recipes() -> None:
    assert augment.SCALES == (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


def test_scaling_keeps_labels_on_their_pixels() -> None:
    """An image whose colour is its label: after scaling, both must agree away from edges."""
    labels = np.repeat(np.repeat(np.arange(16, dtype=np.uint8).reshape(4, 4), 16, 0), 16, 1)
    image = np.repeat(labels[:, :, None] * np.uint8(15), 3, 2)
    for factor in augment.SCALES:
        scaled, truth = augment.scale(image, labels, factor)
        assert scaled.shape[:2] == truth.shape == (64 * factor, 64 * factor)
        assert np.mean(np.abs(scaled[:, :, 0].astype(int) - truth.astype(int) * 15) <= 1) > 0.8
        off = scaled[:, :, 0].astype(int) - truth.astype(int) * 15
        assert abs(off.mean()) < 0.5, "no shift to one side"


def test_padding_is_below_and_to_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augment, "SCALES", (1.0,))
    cut = augment.draw_cut((2, 3), height=4, width=5, rng=np.random.default_rng(0))
    image, labels = np.full((2, 3, 3), 7, np.uint8), np.full((2, 3), 4, np.uint8)
    image, labels = augment.pad_and_crop(image, labels, cut)
    assert labels.tolist() == [[4, 4, 4, 255, 255]] * 2 + [[255] * 5] * 2
    assert image[:, :, 1].tolist() == [[7, 7, 7, 128, 128]] * 2 + [[128] * 5] * 2


def test_crops_reach_every_corner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augment, "SCALES", (1.0,))
    labels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    image = np.repeat(labels[:, :, None], 3, 2)
    seen = set()
    for seed in range(60):
        cut = augment.draw_cut((3, 4), height=2, width=2, rng=np.random.default_rng(seed))
        pixels, truth = augment.pad_and_crop(image, labels, cut)
        assert np.array_equal(pixels[:, :, 2], truth)
        seen.add(int(truth[0, 0]))
    assert seen == {0, 1, 2, 4, 5, 6}


def test_augmented_samples_are_seeded_and_vary() -> None:
    rng = np.random.default_rng(0)
    image = cv2.resize(rng.integers(0, 256, (8, 16, 3), dtype=np.uint8), (96, 48))
    labels = rng.integers(0, 19, (48, 96), dtype=np.uint8)
    results = []
    for seed in (1, 1, *range(20)):
        own = np.random.default_rng(seed)
        results.append(augment.augment(image, labels, augment.draw_cut((48, 96), height=32, width=64, rng=own), own))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
    assert all(pixels.shape == (32, 64, 3) and truth.shape == (32, 64) for pixels, truth in results)
    assert all(pixels.dtype == truth.dtype == np.uint8 for pixels, truth in results)
    assert len({pixels.tobytes() for pixels, _ in results[2:]}) == 20


@pytest.mark.parametrize("size", [(128, 256), (100, 60), (66, 130), (40, 200)])
def test_what_a_crop_does_not_need_does_not_change_it(size: tuple[int, int]) -> None:
    """To the bit: scaled as a part of the image or as a part of the whole one, with noise as the hardest case."""
    rng = np.random.default_rng(0)
    image, labels = rng.integers(0, 256, (*size, 3), dtype=np.uint8), rng.integers(0, 20, size, dtype=np.uint8)
    num_less = 0
    for seed in range(60):
        cut = augment.draw_cut(size, height=32, width=64, rng=np.random.default_rng(seed))
        whole = augment.pad_and_crop(*augment.scale(image, labels, cut.factor), cut)
        part = image[: cut.num_rows, : cut.num_columns], labels[: cut.num_rows, : cut.num_columns]
        for found, wanted in zip(augment.pad_and_crop(*augment.scale(*part, cut.factor), cut), whole, strict=True):
            np.testing.assert_array_equal(found, wanted)
        num_less += cut.num_rows < size[0] or cut.num_columns < size[1]
    assert num_less > 10 or size[0] % 4


def test_a_sample_is_the_same_from_the_rows_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cityscapes(tmp_path / "streets", num_images=5, num_workers=1, size=(96, 192))
    streets = data.open_data(tmp_path / "streets", size=SMALL)
    some = [streets.train_sample(0, np.random.default_rng(seed)).arrays for seed in range(12)]
    asked: list[int | None] = []

    def load_all(*args: Any, num_rows: int | None) -> Any:
        asked.append(num_rows)
        return load_pair(*args)

    monkeypatch.setattr(data, "load_pair", load_all)
    whole = [streets.train_sample(0, np.random.default_rng(seed)).arrays for seed in range(12)]
    assert min(rows for rows in asked if rows) < 96
    for one, other in zip(some, whole, strict=True):
        np.testing.assert_array_equal(one["image"], other["image"])
        np.testing.assert_array_equal(one["labels"], other["labels"])


def test_colour_distortions_by_hand() -> None:
    grey = np.full((2, 2, 3), 100, np.uint8)
    colour = np.array([[[200, 50, 50], [50, 50, 50]]], np.uint8)
    assert np.all(augment.brighten(grey, 1.0) == 140)
    assert np.all(augment.brighten(grey, -1.0) == 60)
    assert np.all(augment.change_contrast(grey, 1.0) == 100), "grey of the mean stays"
    assert augment.change_contrast(np.array([[[50] * 3, [150] * 3]], np.uint8), 1.0)[0, :, 0].tolist() == [30, 170]
    assert np.all(augment.saturate(grey, 1.0) == 100)
    # Grey of (200, 50, 50) is 94.85; 0.6 of the way from there to the colour.
    assert augment.saturate(colour, -1.0)[0, 0].tolist() == [158, 68, 68]
    assert np.array_equal(augment.turn_hue(colour, 0.0), colour)
    turned = augment.turn_hue(colour, 1.0)[0]
    # 18 of 256 steps are 25.3 degrees of the 60 from red to yellow: green rises by 0.42 of 150.
    assert np.abs(turned[0].astype(int) - [200, 113, 50]).max() <= 2
    assert turned[1].tolist() == [50, 50, 50]


# -- pipeline ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data") / "made"
    make_cityscapes(root, num_images=8, val_fraction=0.25, num_workers=1, size=(64, 128))
    return root


def test_pipeline_gives_crops_to_train_on_and_whole_images_to_evaluate_with(folder: Path) -> None:
    size = ImageSize(height=32, width=48, flops_per_sample=1.0, batch_size=2)
    pipeline = data.open_data(folder, size=size)
    assert (pipeline.num_train, pipeline.num_val, pipeline.num_classes) == (6, 2, 19)
    assert sorted(pipeline.order(seed=0, epoch=0, global_batch=2).tolist()) == list(range(6))
    sample = pipeline.train_sample(0, np.random.default_rng(0))
    assert sample.problems == ()
    assert (sample.arrays["image"].shape, sample.arrays["labels"].shape) == ((32, 48, 3), (32, 48))
    whole = pipeline.eval_sample(0)
    assert (whole.arrays["image"].shape, whole.arrays["labels"].shape) == ((64, 128, 3), (64, 128))
    values = np.unique(whole.arrays["labels"])
    assert set(values[values != IGNORED].tolist()) <= set(range(19))
    assert IGNORED in values


def test_an_unusable_pair_is_named_and_a_strange_one_is_used(folder: Path) -> None:
    pipeline = data.open_data(folder, size=SMALL)
    label = sorted((folder / "gtFine" / "val").rglob("*.png"))[0]
    image = sorted((folder / "leftImg8bit" / "val").rglob("*.png"))[1]
    good = {path: path.read_bytes() for path in (label, image)}
    try:
        label.write_bytes(encode_png(np.full((10, 20), 7, np.uint8), level=1))
        with pytest.raises(UnusableSampleError) as caught:
            pipeline.eval_sample(0)
        assert caught.value.path == str(label.relative_to(folder))
        assert "20 x 10 pixels, its image has 128 x 64" in caught.value.problem
        image.write_bytes(encode_png(np.full((64, 128, 4), 9, np.uint8), level=1))
        sample = pipeline.eval_sample(1)
        assert sample.arrays["image"].shape == (64, 128, 3)
        [(path, problem)] = sample.problems
        assert path == str(image.relative_to(folder))
        assert "transparency" in problem
    finally:
        for path, content in good.items():
            path.write_bytes(content)
