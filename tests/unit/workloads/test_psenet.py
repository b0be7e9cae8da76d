from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torchvision.models import resnet50

from trainmark.datasets.icdar2015.make import Page, make_icdar2015
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import UnusableSampleError
from trainmark.workloads.loss import total_loss
from trainmark.workloads.psenet import augment, data, metric
from trainmark.workloads.psenet import torch as workload
from trainmark.workloads.psenet.card import CARD, NUM_KERNELS
from trainmark.workloads.psenet.labels import TRAINED, draw_labels, kernel_rate, shrink, shrink_offset
from trainmark.workloads.psenet.torch_loss import choose_pixels, dice_loss, loss_terms
from trainmark.workloads.schedules import learning_rate, peak_learning_rate
from trainmark.workloads.torch import to_tensors

TINY = ImageSize(height=64, width=64, flops_per_sample=1.0, batch_size=2)


def collate(samples: Any) -> Any:
    return to_tensors(data.TextImages.collate(samples))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """A team of threads that waits for busy cores takes many times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build() -> nn.Module:
    torch.manual_seed(0)
    return workload.build_model(recipe="reference", device_type="cpu", num_classes=1, size=TINY)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return build()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("text") / "made"
    make_icdar2015(root, num_images=6, val_fraction=0.5, num_workers=1, page=Page(height=120, width=200, max_words=3))
    return root


# -- network -----------------------------------------------------------------------------------------------------------


def test_parameter_count(model: nn.Module) -> None:
    """By hand from torchvision's ResNet-50: other stem, wider entrance to layer 1, no classifier, pyramid and head."""
    classifier, plain_stem = 2048 * 1000 + 1000, 3 * 64 * 49 + 128
    deep_stem = 3 * 64 * 9 + 128 + 64 * 64 * 9 + 128 + 64 * 128 * 9 + 256
    entrance = 64 * 64 + 64 * 256  # 64 more input channels for its first 1x1 and for the shortcut
    laterals = 256 * (256 + 512 + 1024 + 2048) + 4 * 512
    smooths = 3 * (256 * 256 * 9 + 512)
    head = 1024 * 256 * 9 + 512 + 256 * 7 + 7
    by_hand = 25_557_032 - classifier - plain_stem + deep_stem + entrance + laterals + smooths + head
    assert sum(p.numel() for p in resnet50().parameters()) == 25_557_032
    assert sum(p.numel() for p in model.parameters()) == CARD.num_parameters == by_hand == 28_749_511


def test_maps_have_the_inputs_size_and_stay_float32(model: nn.Module) -> None:
    images = torch.zeros(1, 3, 64, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert model.eval()(images).dtype is torch.float32
    assert model(images).shape == (1, NUM_KERNELS, 64, 32)
    model.train()


def test_strides_of_the_backbone(model: nn.Module) -> None:
    assert model.stem(torch.zeros(1, 3, 64, 64)).shape == (1, 128, 16, 16)
    assert [model.get_submodule(f"layer{n}")[0].conv2.stride[0] for n in (1, 2, 3, 4)] == [1, 2, 2, 2]


def test_everything_is_decayed_alike(model: nn.Module) -> None:
    (group,) = workload.parameter_groups(model)
    assert group.weight_decay == 5e-4
    assert sum(p.numel() for p in group.params) == CARD.num_parameters


def test_schedule_steps_down_at_200_and_400_of_600_epochs_and_ignores_the_batch() -> None:
    assert {peak_learning_rate(CARD.schedule, global_batch=batch) for batch in (8, 16, 64)} == {1e-3}
    rates = [
        learning_rate(CARD.schedule, peak=1e-3, step=62 * epoch, num_steps=600 * 62)
        for epoch in (0, 199, 200, 399, 400)
    ]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5])


# -- labels ------------------------------------------------------------------------------------------------------------


def rectangle(left: int, top: int, right: int, bottom: int) -> NDArray[np.int32]:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], dtype=np.int32)


def test_shrink_offsets_of_a_rectangle() -> None:
    """100 x 40: area 4000, perimeter 280. At .4: 4000 x .84 / 280.001 = 12.0; at .7: 4000 x .51 / 280 = 7.29."""
    word = rectangle(10, 10, 110, 50)
    assert [round(kernel_rate(number), 3) for number in range(7)] == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert [shrink_offset(word, kernel_rate(number)) for number in range(7)] == [0, 3, 5, 7, 9, 11, 12]
    (smallest,) = shrink(word, 0.4)
    assert sorted(map(tuple, smallest.tolist())) == [(22, 22), (22, 38), (98, 22), (98, 38)]


def test_no_offset_is_more_than_twenty() -> None:
    assert shrink_offset(rectangle(0, 0, 1000, 400), 0.4) == 20


def test_the_order_of_the_corners_does_not_matter() -> None:
    word = rectangle(10, 10, 110, 50)
    assert shrink_offset(word[::-1], 0.4) == 12
    assert sorted(map(tuple, shrink(word[::-1], 0.4)[0].tolist())) == [(22, 22), (22, 38), (98, 22), (98, 38)]


def test_a_polygon_that_would_vanish_is_kept() -> None:
    thin = np.array([[0, 0], [100, 1], [100, 0], [0, 1]], dtype=np.int32)  # a bow tie
    for word in (rectangle(0, 0, 3, 1), thin, rectangle(5, 5, 5, 20)):
        pieces = shrink(word, 0.4)
        assert all(len(piece) > 2 for piece in pieces)


def test_label_maps_of_a_rectangle() -> None:
    frame = rectangle(0, 0, 119, 99)
    labels = draw_labels([rectangle(10, 10, 110, 50)], [rectangle(10, 60, 40, 70)], frame=frame, side=128)
    areas = [int(((labels[:60] >> number) & 1).sum()) for number in range(7)]
    assert areas[0] == 101 * 41  # both edges are drawn
    assert areas[6] == 77 * 17
    assert areas == sorted(areas, reverse=True)
    is_trained = (labels & TRAINED) != 0
    assert is_trained.sum() == 120 * 100 - 31 * 11
    assert not is_trained[65, 20]
    assert not is_trained[110, 20]
    assert (labels[60:71, 10:41] & 0b1111111).any(), "an ignored word is text"
    assert not (labels[71:] & 1).any()


# -- loss --------------------------------------------------------------------------------------------------------------


def test_dice_by_hand() -> None:
    """p = (.8, .4, .1), g = (1, 0, 1), the last pixel masked: 1 - 2 x .8 / (.64 + .16 + .001 + 1 + .001)."""
    scores, target = torch.tensor([[[0.8, 0.4, 0.1]]]), torch.tensor([[[True, False, True]]])
    mask = torch.tensor([[[True, True, False]]])
    assert dice_loss(scores, target, mask).item() == pytest.approx(1 - 1.6 / 1.802)


def test_dice_of_nothing_is_one_and_of_the_truth_nearly_zero() -> None:
    target = torch.tensor([[[True, False]]])
    full = torch.ones_like(target)
    assert dice_loss(target.float(), target, full).item() == pytest.approx(1 - 2 / 2.002, abs=1e-6)
    assert dice_loss(torch.zeros(1, 1, 2), torch.zeros_like(target), full).item() == 1


def plain_choice(logits: NDArray[Any], text: NDArray[Any], is_trained: NDArray[Any]) -> NDArray[np.bool_]:
    """Of one image, as the public code defines it: every pixel that is no text is a negative."""
    num_positive = (text & is_trained).sum()
    negatives = np.sort(logits[~text])[::-1]
    num_wanted = min(3 * num_positive, len(negatives))
    if num_wanted == 0:
        return is_trained
    chosen: NDArray[np.bool_] = (text | (logits >= negatives[num_wanted - 1])) & is_trained
    return chosen


def test_hardest_negatives_by_hand() -> None:
    """One positive: the three highest of six negatives, of which the highest is not trained on; ### is no negative."""
    logits = torch.tensor([[[-9.0, 2.0, -3.0, -0.5, 0.7, 0.8, 30.0, 40.0]]])
    text = torch.tensor([[[True, False, False, False, False, False, False, True]]])
    is_trained = torch.tensor([[[True, True, True, True, True, True, False, False]]])
    chosen = choose_pixels(logits, text, is_trained)[0, 0].tolist()
    assert chosen == [True, True, False, False, False, True, False, False]


def test_confident_negatives_are_told_apart_by_their_logits() -> None:
    """The sigmoids of 20 and 30 are both 1 in float32."""
    logits = torch.tensor([[[0.0, 20.0, 30.0, 30.5, 31.0]]])
    text = torch.tensor([[[True, False, False, False, False]]])
    chosen = choose_pixels(logits, text, torch.ones_like(text))[0, 0].tolist()
    assert chosen == [True, False, True, True, True]


def test_hardest_negatives_equal_the_plain_definition() -> None:
    rng = np.random.default_rng(0)
    for density in (0.0, 0.02, 0.2, 0.5, 1.0):
        logits = ((rng.integers(0, 40, (6, 12, 15)) - 20) / 4).astype(np.float32)  # with many equal ones
        text, is_trained = rng.random((6, 12, 15)) < density, rng.random((6, 12, 15)) < 0.8
        is_trained[5] = False
        chosen = choose_pixels(*(torch.from_numpy(part) for part in (logits, text, is_trained))).numpy()
        for image in range(6):
            np.testing.assert_array_equal(chosen[image], plain_choice(logits[image], text[image], is_trained[image]))


def _loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return total_loss(loss_terms(logits, labels))


def test_loss_by_hand() -> None:
    """One positive with score .5 everywhere, three negatives at .5: text 1 - 1/(4 x .25 + 1.002), kernels
    masked to the one text pixel: the first is set, 1 - 1/(.25 + 1.002); the other five are not, 1 - 0."""
    labels = torch.full((1, 1, 4), TRAINED, dtype=torch.uint8)
    labels[0, 0, 0] |= 0b11
    loss = _loss(torch.zeros(1, 7, 1, 4), labels)
    text, first = 1 - 1 / 2.002, 1 - 1 / 1.252
    assert loss.item() == pytest.approx(0.7 * text + 0.3 * (first + 5) / 6)


def test_loss_is_the_mean_over_images_and_stays_finite() -> None:
    torch.manual_seed(1)
    logits = 5 * torch.randn(2, 7, 16, 16)
    labels = torch.randint(0, 256, (2, 16, 16), dtype=torch.uint8)
    labels[1] = 0  # nothing to train on
    each = [_loss(logits[n : n + 1], labels[n : n + 1]) for n in range(2)]
    assert _loss(logits, labels).item() == pytest.approx((each[0] + each[1]).item() / 2)
    huge = (1e4 * logits).requires_grad_()
    _loss(huge, labels).backward()
    assert huge.grad is not None
    assert torch.isfinite(huge.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_training_step_in_every_precision(dtype: torch.dtype) -> None:
    model = build()
    batch = workload.synthetic_batch(batch_size=2, size=TINY, num_classes=1, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype if dtype is not torch.float32 else torch.bfloat16, enabled=dtype != torch.float32):
        loss = workload.compute_loss(model, batch)
    loss.backward()
    assert loss.dtype is torch.float32
    assert 0 < loss.item() < 1
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert all(p.grad is not None for p in model.parameters())


def test_synthetic_labels_look_like_text() -> None:
    size = ImageSize(height=256, width=256, flops_per_sample=1.0, batch_size=4)
    make = lambda seed: workload.synthetic_batch(  # noqa: E731
        batch_size=4, size=size, num_classes=1, generator=torch.Generator().manual_seed(seed)
    )
    one, same, other = make(1), make(1), make(2)
    assert torch.equal(one["images"], same["images"])
    assert torch.equal(one["labels"], same["labels"])
    assert not torch.equal(one["labels"], other["labels"])
    maps = [((one["labels"] >> number) & 1).float().mean().item() for number in range(NUM_KERNELS)]
    assert 0.05 < maps[0] < 0.4
    assert all(0.25 * a < b < a for a, b in itertools.pairwise(maps))
    assert 0.9 < ((one["labels"] >> NUM_KERNELS) & 1).float().mean().item() < 1


# -- pipeline ----------------------------------------------------------------------------------------------------------


def test_views_are_deterministic_and_carry_corners_with_pixels() -> None:
    """Bright squares at the corners of the words are found where the matrix says."""
    rng = np.random.default_rng(5)
    pixels = np.zeros((200, 300, 3), dtype=np.uint8)
    centres = np.array([[60.0, 50.0], [220.0, 150.0]])
    for x, y in centres.astype(int):
        pixels[y - 4 : y + 5, x - 4 : x + 5] = 255
    quads = centres[:, None] + np.array([[-4, -4], [4, -4], [4, 4], [-4, 4]])
    for _ in range(20):
        matrix = augment.train_view(rng, height=200, width=300, side=128, quads=quads)
        view = augment.warp(pixels, matrix, height=128, width=128)
        for x, y in augment.apply(matrix, centres):
            if 4 < x < 123 and 4 < y < 123:
                assert view[round(y), round(x)].min() > 200
    views = [augment.train_view(np.random.default_rng(9), height=200, width=300, side=128, quads=quads) for _ in (0, 1)]
    np.testing.assert_array_equal(*views)


def test_views_have_the_recipes_ranges() -> None:
    rng = np.random.default_rng(1)
    quads = np.array([[640.0, 360.0], [100.0, 100.0]])[:, None] + np.array([[-9, -5], [9, -5], [9, 5], [-9, 5]])
    scales, turns, flips = [], [], []
    for _ in range(1500):
        matrix = augment.train_view(rng, height=720, width=1280, side=736, quads=quads)
        scales.append(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
        flips.append(np.linalg.det(matrix[:, :2]) < 0)
        turns.append(np.degrees(np.arctan2(matrix[1, 1], -matrix[0, 1])) - 90)
    assert 0.7 <= min(scales) * 720 / 736 < 0.74  # sides go up to a multiple of 32
    assert 1.28 < max(scales) * 720 / 736 < 1.36
    assert 9 < max(turns) < 12  # 10 degrees, and the skew of stretching afterwards none
    assert 0.45 < np.mean(flips) < 0.55


def plain_ranges(text: NDArray[np.bool_], side: int) -> list[tuple[int, int]]:
    """Where the public code starts a forced crop (x, then y), from a mask of all text in the turned image."""
    ranges = []
    for axis in (1, 0):
        length = text.shape[axis]
        shown = min(side, length)
        places = np.flatnonzero(text.any(axis=1 - axis))
        low, high = max(0, places[0] - shown), min(max(0, places[-1] - shown), length - shown)
        ranges.append((low, high) if low < high else (0, 0))
    return ranges


def test_forced_crops_start_within_the_extent_of_all_text() -> None:
    rng = np.random.default_rng(0)
    cut = 0
    for _ in range(60):
        sized = rng.integers(60, 400, 2)
        quads = np.stack([quad_near(rng, rng.uniform((-20, -20), sized + 20)) for _ in range(3)])
        text = np.zeros((sized[1], sized[0]), dtype=np.uint8)
        cv2.fillPoly(text, list(np.rint(quads).astype(np.int32)), 1)
        corners = np.array([augment._choose_corner(rng, quads, sized, 100) for _ in range(200)])
        assert (corners >= 0).all()
        assert (corners + np.minimum(100, sized) <= sized).all()
        if not text.any():
            continue
        cut += bool((quads < 0).any() or (quads > sized).any())
        for axis, (low, high) in enumerate(plain_ranges(text.astype(bool), 100)):
            outside = np.mean((corners[:, axis] < low - 1) | (corners[:, axis] > high + 1))
            assert outside <= 3 / 8 + 0.12, "a free crop in 3 of 8"
    assert cut > 10, "words that the turn cut off must be among the cases"


def quad_near(rng: np.random.Generator, centre: NDArray[np.float64]) -> NDArray[np.float64]:
    box = cv2.boxPoints(((0.0, 0.0), (rng.uniform(10, 50), rng.uniform(5, 20)), rng.uniform(0, 90)))
    return centre + box


def test_a_polygon_is_clipped_to_the_pixels_of_the_image() -> None:
    sized = np.array([100, 50])
    crossing = np.array([[-10.0, 10], [20, 10], [20, 30], [-10, 30]])
    clipped = augment._clip_to_frame(crossing, sized)
    assert clipped.min(axis=0).tolist() == [0, 10]
    assert clipped.max(axis=0).tolist() == [20, 30]
    assert len(augment._clip_to_frame(crossing - [30, 0], sized)) == 0
    slanted = np.array([[90.0, 40], [110, 60], [100, 70], [80, 50]])
    assert augment._clip_to_frame(slanted, sized).max(axis=0).tolist() == [99, 49]


def test_eval_views() -> None:
    matrix, sized = augment.eval_view(height=720, width=1280, side=736)
    assert sized == (736, 1312)  # 1308.4 goes up to a multiple of 32
    np.testing.assert_allclose(matrix, [[1312 / 1280, 0, 0], [0, 736 / 720, 0]])


def test_grey_stays_grey_and_brightness_is_bounded() -> None:
    grey = np.full((4, 4, 3), 100, dtype=np.uint8)
    levels = [augment.jitter_colours(np.random.default_rng(seed), grey) for seed in range(50)]
    assert all(np.ptp(level) <= 1 for level in levels)
    assert 87 <= min(level.min() for level in levels) < 92
    assert 108 < max(level.max() for level in levels) <= 113


def test_train_samples(folder: Path) -> None:
    pipeline = data.open_data(folder, size=TINY)
    assert (pipeline.num_train, pipeline.num_val, pipeline.num_classes) == (3, 3, 1)
    one, same = (pipeline.train_sample(0, np.random.default_rng([0, 0, 0])) for _ in range(2))
    np.testing.assert_array_equal(one.arrays["image"], same.arrays["image"])
    np.testing.assert_array_equal(one.arrays["labels"], same.arrays["labels"])
    other = pipeline.train_sample(0, np.random.default_rng([0, 1, 0]))
    assert (other.arrays["image"] != one.arrays["image"]).any()
    batch = collate([one.arrays, other.arrays])
    assert batch["images"].shape == (2, 64, 64, 3)
    assert batch["labels"].shape == (2, 64, 64)
    assert batch["labels"].dtype is batch["images"].dtype is torch.uint8


def test_words_that_begin_with_a_hash_are_not_trained_on(tmp_path: Path) -> None:
    """`#1` is a word to find in evaluation and an ignored one in training; `###` is ignored in both."""
    page = Page(height=120, width=200, max_words=1)
    make_icdar2015(tmp_path / "made", num_images=2, val_fraction=0.5, num_workers=1, page=page)
    lines = "20,20,90,20,90,50,20,50,#1\n100,60,180,60,180,100,100,100,###\n"
    for label in (tmp_path / "made").rglob("gt_img_*.txt"):
        label.write_text(lines, encoding="utf-8")
    pipeline = data.open_data(tmp_path / "made", size=TINY)
    rng = np.random.default_rng(0)
    labels = np.stack([pipeline.train_sample(0, rng).arrays["labels"] for _ in range(8)])
    assert (labels & 1).any()
    assert not ((labels & 1).astype(bool) & ((labels & TRAINED) != 0)).any()
    assert pipeline.eval_sample(0).arrays["ignored"].tolist() == [False, True]


def test_order_is_every_sample_once(folder: Path) -> None:
    pipeline = data.open_data(folder, size=TINY)
    assert sorted(pipeline.order(seed=0, epoch=0, global_batch=1).tolist()) == [0, 1, 2]
    assert len(pipeline.order(seed=0, epoch=0, global_batch=2)) == 2


def test_bad_files_are_named_and_the_rest_is_used(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    make_icdar2015(root, num_images=4, val_fraction=0, num_workers=1, page=Page(height=120, width=200, max_words=3))
    images, labels = root / "ch4_training_images", root / "ch4_training_localization_transcription_gt"
    whole = (images / "img_1.jpg").read_bytes()
    (images / "img_1.jpg").write_bytes(whole[: len(whole) // 2])
    (images / "img_2.jpg").write_bytes(b"")
    (labels / "gt_img_3.txt").unlink()
    (labels / "gt_img_4.txt").write_bytes("1,2,3\r\n10,10,60,10,60,40,10,40,schön\r\n".encode("latin-1"))
    pipeline = data.open_data(root, size=TINY)
    rng = np.random.default_rng(0)
    cut = pipeline.train_sample(0, rng)
    assert cut.problems[0][0].endswith("img_1.jpg")
    for index, name in ((1, "img_2.jpg"), (2, "img_3.jpg")):
        with pytest.raises(UnusableSampleError) as caught:
            pipeline.train_sample(index, rng)
        assert caught.value.path.endswith(name)
    text = " ".join(problem for _, problem in pipeline.train_sample(3, rng).problems)
    assert "not UTF-8" in text
    assert "line 1" in text


# -- score and metric --------------------------------------------------------------------------------------------------


class Oracle(nn.Module):
    """Gives the maps of the true words, whatever it sees, for images in the order they come."""

    def __init__(self, maps: list[NDArray[np.uint8]]) -> None:
        super().__init__()
        self._maps = maps

    def forward(self, images: Tensor) -> Tensor:
        maps = [torch.from_numpy(self._maps.pop(0)) for _ in images]
        bits = torch.stack([torch.stack([(m >> n) & 1 for n in range(NUM_KERNELS)]) for m in maps])
        return 20.0 * (bits.float() - 0.5)


def true_maps(sample: Any) -> NDArray[np.uint8]:
    height, width = sample.arrays["image"].shape[:2]
    corners = np.rint(sample.arrays["quads"] * sample.arrays["scale"]).astype(np.int32)
    words = list(corners[~sample.arrays["ignored"]])
    side = max(height, width)
    return draw_labels(words, [], frame=rectangle(0, 0, side, side), side=side)[:height, :width]


def test_true_maps_score_full_marks_and_halves_add_up(folder: Path) -> None:
    pipeline = data.open_data(folder, size=ImageSize(height=256, width=256, flops_per_sample=1.0, batch_size=1))
    samples = [pipeline.eval_sample(index) for index in range(3)]
    whole = workload.score(Oracle([true_maps(s) for s in samples]), collate([s.arrays for s in samples]))
    parts = [workload.score(Oracle([true_maps(s)]), collate([s.arrays])) for s in samples]
    assert whole.dtype is torch.float64
    assert torch.equal(whole, torch.stack(parts).sum(0))
    metrics = metric.summarise(whole.numpy(), None)
    assert metrics == {"f": 1.0, "precision": 1.0, "recall": 1.0}
    assert whole[1] > 2


def test_images_of_different_sizes_share_a_batch(model: nn.Module) -> None:
    """And an image's counts do not depend on its neighbours."""
    rng = np.random.default_rng(0)
    arrays = [
        {
            "image": rng.integers(0, 256, (height, width, 3)).astype(np.uint8),
            "quads": np.zeros((0, 4, 2)),
            "ignored": np.zeros(0, dtype=bool),
            "scale": np.ones(2),
        }
        for height, width in ((32, 64), (32, 32), (32, 64))
    ]
    still = copy.deepcopy(model).eval()
    together = workload.score(still, collate(arrays))
    assert together.tolist()[:2] == [0, 0]
    assert torch.equal(together, sum(workload.score(still, collate([part])) for part in arrays))


def quads(*rows: tuple[float, float, float, float]) -> NDArray[np.float64]:
    return np.array([rectangle(*(int(v) for v in row)) for row in rows], dtype=np.float64).reshape(-1, 4, 2)


def count(found: NDArray[np.float64], true: NDArray[np.float64], ignored: list[bool]) -> tuple[int, int, int]:
    return metric.count_matches(found, true, np.array(ignored, dtype=bool))


def test_matching_by_hand() -> None:
    """Word 1 is found with IoU 80/100, word 2 with exactly 1/2 (not enough), word 3 is `###`, word 4 is missed."""
    true = quads((0, 0, 10, 10), (20, 0, 30, 10), (40, 0, 60, 10), (80, 0, 90, 10))
    found = quads((0, 0, 10, 8), (20, 0, 30, 5), (45, 2, 55, 12), (100, 0, 110, 10))
    counts = count(found, true, [False, False, True, False])
    assert counts == (1, 3, 3)  # the third found word lies in `###` by 80 of 100
    assert metric.summarise(np.array(counts, dtype=float), None) == pytest.approx(
        {"f": 1 / 3, "precision": 1 / 3, "recall": 1 / 3}
    )


def test_half_in_a_do_not_care_region_still_counts() -> None:
    assert count(quads((0, 0, 10, 10)), quads((5, 0, 50, 10)), [True]) == (0, 0, 1)
    assert count(quads((0, 0, 10, 10)), quads((4, 0, 50, 10)), [True]) == (0, 0, 0)


def test_a_true_word_is_matched_once() -> None:
    found = quads((0, 0, 10, 10), (0, 0, 10, 9))
    assert count(found, quads((0, 0, 10, 10)), [False]) == (1, 1, 2)
    assert count(found[:1], quads((0, 0, 10, 10), (0, 0, 10, 9)), [False, False]) == (1, 2, 1)


def test_nothing_found_and_nothing_to_find() -> None:
    nothing = np.zeros((0, 4, 2))
    assert count(nothing, quads((0, 0, 10, 10)), [False]) == (0, 1, 0)
    assert count(quads((0, 0, 10, 10)), nothing, []) == (0, 0, 1)
    assert metric.summarise(np.array([0.0, 5.0, 0.0]), None) == {"f": 0.0, "precision": 0.0, "recall": 0.0}
    assert metric.summarise(np.zeros(3), None) == {}


def test_wrong_quadrilaterals_have_the_area_of_their_outline() -> None:
    square = quads((0, 0, 10, 10))
    bow_tie = square[:, [0, 2, 1, 3]]  # two triangles of 25
    arrow = np.array([[[0, 0], [10, 0], [2, 2], [0, 10]]], dtype=np.float64)
    line = np.array([[[0, 0], [10, 0], [10, 0], [0, 0]]], dtype=np.float64)
    assert metric._area(metric._outline(bow_tie[0])) == pytest.approx(50)
    assert metric._shared_area(metric._outline(bow_tie[0]), metric._outline(square[0])) == pytest.approx(50)
    assert metric._area(metric._outline(arrow[0])) == pytest.approx(20)
    for wrong in (bow_tie, arrow):
        assert count(wrong, wrong, [False]) == (1, 1, 1)
    assert count(line, square, [False]) == (0, 1, 1)
    assert count(square, line, [False]) == (0, 1, 1)


def test_areas_of_turned_rectangles_agree_with_opencv() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        one, other = (
            cv2.boxPoints(((rng.uniform(40, 60), rng.uniform(40, 60)), (30.0, 20.0), rng.uniform(0, 90))) for _ in "12"
        )
        expected, _ = cv2.intersectConvexConvex(one, other)
        shared = metric._shared_area(metric._outline(one.astype(float)), metric._outline(other.astype(float)))
        assert shared == pytest.approx(expected, abs=0.3)
