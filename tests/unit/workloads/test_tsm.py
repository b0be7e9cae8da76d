from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torchvision import transforms
from torchvision.models import resnet50

from trainmark.datasets.kinetics.make import make_kinetics
from trainmark.datasets.kinetics.read import frame_name
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import UnusableSampleError
from trainmark.workloads.schedules import learning_rate, peak_learning_rate
from trainmark.workloads.torch import normalise, to_tensors
from trainmark.workloads.tsm import data, metric
from trainmark.workloads.tsm import torch as workload
from trainmark.workloads.tsm.card import CARD
from trainmark.workloads.tsm.torch_shift import ShiftedConv2d, temporal_shift

TINY = ImageSize(height=32, width=32, flops_per_sample=1.0, batch_size=2, num_frames=8)


def collate(samples: Any) -> Any:
    return to_tensors(data.Clips.collate(samples))


def tiny_model(*, is_shifted: bool) -> workload.Tsm:
    torch.manual_seed(0)
    return workload.Tsm(num_classes=5, num_frames=8, is_shifted=is_shifted, layers=(1, 1, 1, 1))


def test_shift_of_three_frames_by_hand() -> None:
    """Eight channels: channel 0 comes from the next frame, channel 1 from the one before, six stay."""
    frames = torch.tensor([[10.0 * t + c for c in range(8)] for t in (1, 2, 3)]).view(3, 8, 1, 1)
    shifted = temporal_shift(frames, 3).view(3, 8)
    assert shifted.tolist() == [
        [20, 0, 12, 13, 14, 15, 16, 17],
        [30, 11, 22, 23, 24, 25, 26, 27],
        [0, 21, 32, 33, 34, 35, 36, 37],
    ]


def test_shift_does_not_leave_the_clip() -> None:
    two_clips = torch.randn(6, 16, 2, 2)
    both = temporal_shift(two_clips, 3)
    torch.testing.assert_close(both[:3], temporal_shift(two_clips[:3], 3))
    torch.testing.assert_close(both[3:], temporal_shift(two_clips[3:], 3))


def shifted_by_slices(frames: Tensor, num_frames: int) -> Tensor:
    """The same by padding, whose gradient autograd knows."""
    clips = frames.unflatten(0, (-1, num_frames))
    fold = frames.shape[1] // 8
    ahead = nn.functional.pad(clips[:, 1:, :fold], (0, 0, 0, 0, 0, 0, 0, 1))
    behind = nn.functional.pad(clips[:, :-1, fold : 2 * fold], (0, 0, 0, 0, 0, 0, 1, 0))
    return torch.cat([ahead, behind, clips[:, :, 2 * fold :]], dim=2).flatten(0, 1)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_shift_and_its_gradient_in_every_layout(layout: torch.memory_format, dtype: torch.dtype) -> None:
    frames = torch.randn(8, 24, 3, 5, dtype=dtype).contiguous(memory_format=layout)
    mine, plain = frames.clone().requires_grad_(), frames.clone().requires_grad_()
    result, expected = temporal_shift(mine, 4), shifted_by_slices(plain, 4)
    assert torch.equal(result, expected)
    assert result.is_contiguous(memory_format=layout)
    weights = torch.randn_like(frames)
    result.backward(weights)
    expected.backward(weights)
    assert mine.grad is not None
    assert plain.grad is not None
    assert torch.equal(mine.grad, plain.grad)


def test_shift_can_be_compiled() -> None:
    frames = torch.randn(8, 16, 2, 2, requires_grad=True)
    compiled = torch.compile(lambda x: temporal_shift(x, 4).square().sum(), backend="aot_eager", fullgraph=True)
    compiled(frames).backward()
    plain = frames.detach().clone().requires_grad_()
    shifted_by_slices(plain, 4).square().sum().backward()
    torch.testing.assert_close(frames.grad, plain.grad)


def test_parameters_and_names_are_resnets() -> None:
    size = CARD.sizes["full"]
    with torch.device("meta"):
        models = [workload.Tsm(num_classes=400, num_frames=8, is_shifted=is_shifted) for is_shifted in (True, False)]
        names = set(resnet50().state_dict())
    for model in models:
        assert sum(p.numel() for p in model.parameters()) == CARD.num_parameters == 24_327_632
        assert set(model.state_dict()) == names
    shifted = [module for module in models[0].modules() if isinstance(module, ShiftedConv2d)]
    assert len(shifted) == 16
    assert {conv.num_frames for conv in shifted} == {size.num_frames} == {8}
    assert not any(isinstance(module, ShiftedConv2d) for module in models[1].modules())


def test_first_convolution_of_every_block_is_shifted() -> None:
    model = tiny_model(is_shifted=True)
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        assert all(isinstance(block.conv1, ShiftedConv2d) for block in stage)
        assert all(type(block.conv2) is nn.Conv2d for block in stage)


def test_only_the_shift_sees_the_order() -> None:
    """The control gives the same answer for the frames in any order: it cannot learn one."""
    frames = torch.randn(8, 3, 32, 32)
    backwards = frames.flip(0)
    shifted, control = tiny_model(is_shifted=True).eval(), tiny_model(is_shifted=False).eval()
    with torch.no_grad():
        nn.init.normal_(shifted.fc.weight)
        nn.init.normal_(control.fc.weight)
        torch.testing.assert_close(control(frames), control(backwards), rtol=1e-4, atol=1e-4)
        assert (shifted(frames) - shifted(backwards)).abs().max() > 0.01


def test_logits_are_the_mean_over_the_clips_own_frames() -> None:
    model = tiny_model(is_shifted=True).eval()
    clips = torch.randn(2, 8, 3, 32, 32)
    with torch.no_grad():
        both = model(clips.flatten(0, 1))
        apart = torch.cat([model(clip) for clip in clips])
    assert both.shape == (2, 5)
    torch.testing.assert_close(both, apart, rtol=1e-4, atol=1e-5)


def test_groups_of_parameters() -> None:
    model = tiny_model(is_shifted=True)
    weights, norms, classifier, bias = workload.parameter_groups(model)
    facts = [(group.lr_scale, group.weight_decay) for group in (weights, norms, classifier, bias)]
    assert facts == [(1.0, 1e-4), (1.0, 0.0), (5.0, 1e-4), (10.0, 0.0)]
    assert (classifier.params, bias.params) == ([model.fc.weight], [model.fc.bias])
    assert all(p.dim() == 4 for p in weights.params)
    grouped = [p for group in (weights, norms, classifier, bias) for p in group.params]
    assert {id(p) for p in grouped} == {id(p) for p in model.parameters()}
    assert len(grouped) == len(list(model.parameters()))
    with_bias = nn.Sequential(nn.Conv2d(3, 3, 1))
    assert [group.lr_scale for group in workload.parameter_groups(with_bias)] == [1.0, 2.0]


def test_start_of_the_classifier() -> None:
    model = tiny_model(is_shifted=True)
    assert model.fc.weight.std().item() == pytest.approx(0.001, rel=0.05)
    assert model.fc.bias.abs().max() == 0
    assert model.dropout.p == 0.5


def test_schedule_and_clip() -> None:
    assert peak_learning_rate(CARD.schedule, global_batch=16) == pytest.approx(0.0025)
    rates = [learning_rate(CARD.schedule, peak=0.02, step=epoch, num_steps=50) for epoch in (0, 19, 20, 39, 40, 49)]
    assert rates == pytest.approx([0.02, 0.02, 0.002, 0.002, 0.0002, 0.0002])
    assert CARD.optimizer.clip_norm == 20


def test_loss_of_a_hand_case() -> None:
    """Logits (2, 0) with target 0: log(e^2 + 1) - 2."""
    batch = {"frames": torch.zeros(1, 8, 4, 4, 3, dtype=torch.uint8), "labels": torch.tensor([0])}
    loss = workload.compute_loss(lambda _: torch.tensor([[2.0, 0.0]]), batch)  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(math.log(math.exp(2) + 1) - 2)


def test_normalise_by_hand() -> None:
    images = torch.tensor([0, 255, 51], dtype=torch.uint8).view(1, 1, 1, 3).expand(2, 4, 5, 3)
    result = normalise(images, (0.5, 0.5, 0.2), (0.5, 0.25, 0.1))
    assert result.shape == (2, 3, 4, 5)
    assert result.is_contiguous()
    torch.testing.assert_close(result[1, :, 2, 3], torch.tensor([-1.0, 2.0, 0.0]))


def test_metric_of_two_halves_is_that_of_the_whole() -> None:
    logits = torch.tensor([[0.1, 0.9, 0, 0, 0, 0], [6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]], dtype=torch.float32)
    labels = torch.tensor([1, 4, 0])  # first by the top one, second among the top five, third last of six

    class Fixed(nn.Module):
        def forward(self, frames: Tensor) -> Tensor:
            return logits[frames[:: TINY.num_frames, 0, 0, 0].round().long()]

    def batch(rows: list[int]) -> dict[str, Tensor]:
        frames = torch.zeros(len(rows), 8, 2, 2, 3, dtype=torch.uint8)
        for number, row in enumerate(rows):  # red level such that the normalised value rounds to the row
            frames[number, ..., 0] = round(255 * (data.MEAN[0] + data.STD[0] * row))
        return {"frames": frames, "labels": labels[rows]}

    whole = workload.score(Fixed(), batch([0, 1, 2]))
    halves = workload.score(Fixed(), batch([0, 1])) + workload.score(Fixed(), batch([2]))
    assert whole.dtype == torch.float64
    assert whole.tolist() == halves.tolist() == [3, 1, 2]
    assert metric.summarise(whole.numpy(), None) == {"top1": pytest.approx(1 / 3), "top5": pytest.approx(2 / 3)}
    assert metric.summarise(np.zeros(3), None) == {}


def test_synthetic_batch_is_seeded_and_trains() -> None:
    batches = [
        workload.synthetic_batch(batch_size=2, size=TINY, num_classes=5, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    ]
    assert torch.equal(batches[0]["frames"], batches[1]["frames"])
    assert batches[0]["frames"].shape == (2, 8, 32, 32, 3)
    assert batches[0]["frames"].dtype == torch.uint8
    model = tiny_model(is_shifted=True)
    workload.compute_loss(model, batches[0]).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_one_frame_of_every_segment() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert (data.train_frames(80, rng.random(8)) // 10).tolist() == list(range(8))
    assert data.train_frames(300, np.full(8, 0.999999)).tolist() == [36, 73, 110, 147, 184, 221, 258, 295]
    assert data.eval_frames(80, 8).tolist() == [5, 15, 25, 35, 45, 55, 65, 75]
    assert data.eval_frames(300, 8).tolist() == [18, 56, 93, 131, 168, 206, 243, 281]


@pytest.mark.parametrize(("num_frames", "train", "middle"), [
    (3, [0] * 8, [0] * 8),
    (7, [0] * 8, [0] * 8),
    (8, list(range(8)), [0] * 8),
    (9, list(range(8)), list(range(4)) + list(range(5, 9))),
])  # fmt: skip
def test_short_clips_repeat_their_first_frame(num_frames: int, train: list[int], middle: list[int]) -> None:
    assert data.train_frames(num_frames, np.full(8, 0.9)).tolist() == train
    assert data.eval_frames(num_frames, 8).tolist() == middle


def test_multi_scale_crops_are_inside_and_at_fixed_places() -> None:
    rng = np.random.default_rng(0)
    boxes = [data.multi_scale_crop(258, 340, rng, side=224) for _ in range(4000)]
    assert all(top >= 0 and left >= 0 and top + h <= 258 and left + w <= 340 for top, left, h, w in boxes)
    sizes = {box[2:] for box in boxes}
    assert {h for h, _ in sizes} == {258, 224, 193, 170}, "225 is so near to 224 that it is cut there"
    assert len(sizes) == 10, "4 squares and 6 pairs of neighbours"
    assert (258, 193) not in sizes
    places = {box[:2] for box in boxes if box[2:] == (170, 170)}
    assert len(places) == 13
    assert max(places) == (4 * 22, 4 * 42), "quarters of the room are whole pixels"


@pytest.mark.parametrize("shape", [(331, 588), (256, 340), (340, 256), (240, 320), (331, 331), (100, 101)])
def test_evaluation_sees_what_pillow_and_torchvision_give(shape: tuple[int, int]) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    public = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)])
    np.testing.assert_array_equal(data.eval_view(frame, 224), np.asarray(public(Image.fromarray(frame))))


def test_training_crops_are_resized_as_pillow_does() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (331, 588, 3), dtype=np.uint8)
    size = ImageSize(height=224, width=224, flops_per_sample=1.0, batch_size=1)
    expected = Image.fromarray(frame).crop((20, 10, 268, 299)).resize((224, 224), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(data.cut(frame, (10, 20, 289, 248), size, is_mirrored=False), np.asarray(expected))
    mirrored = data.cut(frame, (10, 20, 289, 248), size, is_mirrored=True)
    np.testing.assert_array_equal(mirrored, np.asarray(expected)[:, ::-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tsm") / "made"
    make_kinetics(root, num_clips=8, num_classes=2, val_fraction=0.5, num_workers=1, num_frames=16, size=(48, 64))
    return root


def test_samples_follow_from_the_generator_alone(folder: Path) -> None:
    pipeline = data.open_data(folder, size=TINY)
    assert (pipeline.num_train, pipeline.num_val, pipeline.num_classes, pipeline.truth) == (4, 4, 2, None)
    samples = [pipeline.train_sample(1, np.random.default_rng([0, 0, seed])) for seed in (1, 1, 2)]
    frames = [sample.arrays["frames"] for sample in samples]
    assert frames[0].shape == (8, 32, 32, 3)
    assert frames[0].dtype == np.uint8
    np.testing.assert_array_equal(frames[0], frames[1])
    assert (frames[0] != frames[2]).any()
    np.testing.assert_array_equal(pipeline.eval_sample(3).arrays["frames"], pipeline.eval_sample(3).arrays["frames"])
    assert sorted(pipeline.order(seed=0, epoch=0, global_batch=2)) == [0, 1, 2, 3]
    batch = collate([sample.arrays for sample in samples])
    assert batch["frames"].shape == (3, 8, 32, 32, 3)
    assert batch["labels"].tolist() == [1, 1, 1]


def test_bad_frames_give_way_to_their_neighbours_and_bad_clips_are_named(folder: Path) -> None:
    pipeline = data.open_data(folder, size=TINY)
    clip = folder / pipeline.val[0].path
    whole = pipeline.eval_sample(0).arrays["frames"]  # of frames 1, 3, 5 and so on
    (clip / frame_name(1)).write_bytes(b"nonsense")
    (clip / frame_name(15)).unlink()
    sample = pipeline.eval_sample(0)
    ((path, problem),) = sample.problems
    assert path == pipeline.val[0].path
    assert "img_00002.jpg: not a JPEG" in problem
    assert "1 more" in problem
    np.testing.assert_array_equal(sample.arrays["frames"], whole[[1, 1, 2, 3, 4, 5, 6, 6]])
    for number in range(3, 15, 2):
        (clip / frame_name(number)).unlink()
    with pytest.raises(UnusableSampleError) as caught:
        pipeline.eval_sample(0)
    assert caught.value.path == path


def test_clips_under_three_frames_are_left_out_by_name(folder: Path) -> None:
    pipeline = data.open_data(folder, size=TINY)
    short = replace(pipeline, train=tuple(replace(clip, num_frames=2) for clip in pipeline.train))
    with pytest.raises(UnusableSampleError) as caught:
        short.train_sample(0, np.random.default_rng(0))
    assert caught.value.path == pipeline.train[0].path
    assert caught.value.problem == "2 frames; clips under 3 are left out"
