from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.models.detection import maskrcnn_resnet50_fpn
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import FrozenBatchNorm2d

from trainmark.datasets.coco.layout import Part
from trainmark.datasets.coco.make import make_coco
from trainmark.errors import DataError
from trainmark.workloads.card import ImageSize
from trainmark.workloads.data import UnusableSampleError
from trainmark.workloads.mask_rcnn import metric
from trainmark.workloads.mask_rcnn import torch as workload
from trainmark.workloads.mask_rcnn.card import CARD, regions_per_image
from trainmark.workloads.mask_rcnn.data import CocoImages, Truth, ngc_size, open_data, torchvision_size
from trainmark.workloads.mask_rcnn.torch_model import VARIANTS, RecipeRCNN, Transform, build_mask_rcnn
from trainmark.workloads.mask_rcnn.torch_ngc import best_of_all, box_loss, is_inside
from trainmark.workloads.mask_rcnn.torch_norm import FrozenNorm, calibrate, noise_images
from trainmark.workloads.schedules import learning_rate, peak_learning_rate
from trainmark.workloads.torch import to_tensors

TINY = ImageSize(height=64, width=96, flops_per_sample=0.0, batch_size=1)
NUM_CLASSES = 5


def collate(samples: Any) -> Any:
    return to_tensors(CocoImages.collate(samples))


@pytest.fixture(scope="module")
def model() -> Any:
    """With COCO's own classes, for a small input."""
    torch.manual_seed(0)
    return workload.build_model(recipe="reference", device_type="cpu", num_classes=CARD.num_classes, size=TINY).train()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("coco") / "set"
    make_coco(root, num_images=30, num_workers=1, mean_size=(48, 64))
    return root


@pytest.fixture(scope="module")
def pipeline(folder: Path) -> CocoImages:
    return open_data(folder, size=TINY)


# -- the model ---------------------------------------------------------------------------------------------------------


def test_parameter_count(model: nn.Module) -> None:
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    frozen = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    assert trained == CARD.num_parameters == 44_125_173
    stem, res2 = 7 * 7 * 3 * 64, 64 * 64 + 2 * 256 * 64 + 3 * (9 * 64 * 64 + 64 * 256) + 64 * 256
    assert frozen == stem + res2


def test_stem_and_res2_are_frozen_and_the_rest_is_not(model: Any) -> None:
    frozen = {name.split(".")[2] for name, value in model.named_parameters() if not value.requires_grad}
    assert frozen == {"conv1", "layer1"}


def test_numbers_of_the_recipe(model: Any) -> None:
    rpn, heads = model.rpn, model.roi_heads
    assert rpn.anchor_generator.sizes == ((32,), (64,), (128,), (256,), (512,))
    assert set(rpn.anchor_generator.aspect_ratios) == {(0.5, 1.0, 2.0)}
    assert (rpn.proposal_matcher.high_threshold, rpn.proposal_matcher.low_threshold) == (0.7, 0.3)
    assert (rpn.fg_bg_sampler.batch_size_per_image, rpn.fg_bg_sampler.positive_fraction) == (256, 0.5)
    assert (rpn.nms_thresh, rpn._pre_nms_top_n) == (0.7, {"training": 2000, "testing": 1000})
    assert heads.proposal_matcher.high_threshold == heads.proposal_matcher.low_threshold == 0.5
    assert heads.fg_bg_sampler.positive_fraction == 0.25
    assert heads.box_coder.weights == (10.0, 10.0, 5.0, 5.0)
    assert (heads.score_thresh, heads.nms_thresh, heads.detections_per_img) == (0.05, 0.5, 100)
    assert (heads.box_roi_pool.output_size, heads.mask_roi_pool.output_size) == ((7, 7), (14, 14))
    assert heads.box_predictor.cls_score.out_features == 81


def test_full_size_takes_512_regions() -> None:
    assert regions_per_image(CARD.sizes["full"]) == 512


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(480, 640, (800, 1066)), (640, 480, (1066, 800)), (300, 901, (444, 1333)), (500, 2000, (333, 1332))],
)
def test_short_side_800_long_side_at_most_1333(height: int, width: int, expected: tuple[int, int]) -> None:
    """NVIDIA's rule rounds the short side and cuts off the long one: 1333 x 300 / 901 is 443.8, 1333 / 4 is 333.25."""
    assert ngc_size(height, width, 800) == expected


@pytest.mark.parametrize(("height", "width"), [(480, 640), (640, 480), (300, 901), (500, 2000), (427, 640), (333, 500)])
def test_torchvisions_input_sizes(height: int, width: int) -> None:
    theirs = GeneralizedRCNNTransform(80, 133, [0.0] * 3, [1.0] * 3)
    resized, _ = theirs.resize(torch.zeros(3, height, width))
    assert torchvision_size(height, width, 80) == tuple(resized.shape[1:])


def test_a_batch_is_padded_to_multiples_of_32_and_targets_go_along(model: Any) -> None:
    images = [torch.zeros((32, 40, 3), dtype=torch.uint8), torch.full((40, 32, 3), 255, dtype=torch.uint8)]
    target = {
        "boxes": torch.tensor([[10.0, 8.0, 20.0, 16.0]]),
        "labels": torch.tensor([1]),
        "masks": torch.zeros((1, 32, 40), dtype=torch.uint8),
    }
    empty = {
        "boxes": torch.zeros((0, 4)),
        "labels": torch.zeros(0, dtype=torch.int64),
        "masks": torch.zeros((0, 40, 32), dtype=torch.uint8),
    }
    target["masks"][0, 8:16, 10:20] = 1
    batch, targets = model.transform(images, [target, empty])
    assert batch.image_sizes == [(64, 80), (80, 64)]
    assert batch.tensors.shape == (2, 3, 96, 96)
    assert batch.tensors[0, :, 0, 0].tolist() == pytest.approx([-102.9801, -115.9465, -122.7717], abs=1e-3)
    assert batch.tensors[1, 2, 79, 63].item() == pytest.approx(255 - 122.7717, abs=1e-3)
    assert batch.tensors[0, :, 64:].abs().max() == 0  # padding
    assert targets[0]["boxes"].tolist() == [[20.0, 16.0, 40.0, 32.0]]
    assert targets[0]["masks"].shape == (1, 64, 80)
    assert targets[0]["masks"].sum() == 4 * 80
    assert targets[1]["boxes"].shape == (0, 4)
    assert [target["size"] for target in targets] == [(64, 80), (80, 64)]
    plain, _ = Transform(VARIANTS["torchvision"], 64)(images)
    assert plain.tensors[0, 0, 0, 0].item() == pytest.approx(-0.485 / 0.229)
    assert plain.tensors[1, 2, 79, 63].item() == pytest.approx((1 - 0.406) / 0.225)


# -- NVIDIA's configuration and torchvision's --------------------------------------------------------------------------


def test_strides_are_in_the_first_1x1(model: Any) -> None:
    first = [model.backbone.body[f"layer{stage}"][0] for stage in (1, 2, 3, 4)]
    assert [block.conv1.stride[0] for block in first] == [1, 2, 2, 2]
    assert all(block.conv2.stride == (1, 1) for block in first)
    assert [block.downsample[0].stride[0] for block in first] == [1, 2, 2, 2]


def test_anchors_that_cross_the_border_are_not_trained_on(model: Any) -> None:
    anchors = torch.tensor([[0.0, 0, 31, 31], [-1, 0, 20, 20], [40, 20, 64, 40], [40, 20, 63, 40], [0, 30, 20, 48]])
    assert is_inside(anchors, (48, 64)).tolist() == [True, False, False, True, False]
    target = {"boxes": anchors[[0, 2]], "labels": torch.tensor([1, 1]), "size": (48, 64)}
    (labels,), _ = model.rpn.assign_targets_to_anchors([anchors], [target])
    assert labels.tolist() == [1, -1, -1, 1, -1], "the third is the second box itself, the fourth nearly"


def test_proposals_are_shared_among_the_batch() -> None:
    scores = [torch.tensor([0.9, 0.8, 0.1]), torch.tensor([0.7]), torch.zeros(0), torch.tensor([0.95, 0.2])]
    kept = [part.tolist() for part in best_of_all(scores, 3)]
    assert kept == [[True, True, False], [False], [], [True, False]]
    assert all(all(part.tolist()) for part in best_of_all(scores, 2000))


def test_2000_proposals_for_the_batch_in_training_and_1000_for_each_image_in_evaluation(model: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    grid = 5.0 * torch.cartesian_prod(torch.arange(50), torch.arange(30))
    boxes = torch.cat([grid, grid + 3], dim=1).expand(2, -1, -1)
    logits = torch.randn(2 * 1500, 1, generator=generator)
    counts = {}
    for is_training in (True, False):
        found, _ = model.rpn.train(is_training).filter_proposals(boxes, logits, [(300, 300)] * 2, [1500])
        counts[is_training] = [len(part) for part in found]
    model.train()
    assert sum(counts[True]) == 2000
    assert counts[True] != [1000, 1000]
    assert counts[False] == [1000, 1000]


def test_box_loss_by_hand() -> None:
    """Two classes and the background. Regions: class 2, off by .5 and 3; background; class 1, right; one more
    background. Beta 1: (.5 x .25 + 3 - .5) / 4."""
    offsets = torch.zeros(4, 3 * 4)
    offsets[0, 8], offsets[0, 9], offsets[1] = 0.5, 3.0, 9.0
    loss = box_loss(offsets, torch.zeros(4, 4), torch.tensor([2, 0, 1, 0]))
    assert loss.item() == pytest.approx((0.125 + 2.5) / 4)


class DoubleTransform(Transform):
    def forward(self, images: Any, targets: Any = None) -> Any:
        batch, targets = super().forward(images, targets)
        targets = [{**target, "boxes": target["boxes"].double()} for target in targets]
        return ImageList(batch.tensors.double(), batch.image_sizes), targets


def test_the_torchvision_recipe_is_torchvisions_network() -> None:
    """Losses and gradients in float64 with the same weights and the same random choices."""
    torch.manual_seed(0)
    ours = build_mask_rcnn(
        kind=RecipeRCNN, variant=VARIANTS["torchvision"], num_outputs=4, short_side=64, num_regions=8
    )
    with torch.device("meta"):  # its own weights are not needed
        theirs = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=4, box_batch_size_per_image=8)
        for module in theirs.modules():  # frozen ones come with pretrained weights only
            for name, child in module.named_children():
                if isinstance(child, nn.BatchNorm2d):
                    setattr(module, name, FrozenBatchNorm2d(child.num_features))
    theirs.load_state_dict({name: value.clone() for name, value in ours.state_dict().items()}, assign=True)
    batch = workload.synthetic_batch(batch_size=1, size=TINY, num_classes=3, generator=torch.Generator().manual_seed(0))
    results = []
    for model in (ours, theirs):
        model.double().train().transform = DoubleTransform(VARIANTS["torchvision"], 64)
        torch.manual_seed(1)
        # torchvision looks for bad boxes in what the user gave: float64 there too.
        losses = model(batch["images"], batch["targets"])[0] if model is ours else _their_losses(model, batch)
        torch.stack(list(losses.values())).sum().backward()
        results.append(losses)
    assert set(results[0]) == set(results[1])
    for name, loss in results[0].items():
        assert loss.item() == pytest.approx(results[1][name].item(), rel=1e-9), name
    twins = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if parameter.grad is not None:
            assert (parameter.grad - twins[name].grad).norm() <= 1e-9 * twins[name].grad.norm(), name


def _their_losses(model: Any, batch: Any) -> dict[str, torch.Tensor]:
    """torchvision's own stages; its forward wants images of another layout."""
    images, targets = model.transform(batch["images"], batch["targets"])
    features = model.backbone(images.tensors)
    proposals, first = model.rpn(images, features, targets)
    return {**first, **model.roi_heads(features, proposals, images.image_sizes, targets)[1]}


def test_biases_learn_twice_as_fast_and_are_not_decayed(model: nn.Module) -> None:
    weights, biases = workload.parameter_groups(model)
    assert (weights.weight_decay, weights.lr_scale) == (1e-4, 1.0)
    assert (biases.weight_decay, biases.lr_scale) == (0.0, 2.0)
    assert all(parameter.dim() > 1 for parameter in weights.params)
    assert all(parameter.dim() == 1 for parameter in biases.params)
    counted = sum(parameter.numel() for group in (weights, biases) for parameter in group.params)
    assert counted == CARD.num_parameters


def test_one_kernel_norm_is_torchvisions() -> None:
    ours, theirs = FrozenNorm(4), FrozenBatchNorm2d(4)
    state = {name: torch.rand(4) + 0.5 for name in ("weight", "bias", "running_mean", "running_var")}
    ours.load_state_dict(state)
    theirs.load_state_dict(state)
    x = torch.randn(2, 4, 5, 6)
    torch.testing.assert_close(ours(x), theirs(x))
    assert ours(x.bfloat16()).dtype is torch.bfloat16


def test_a_random_network_is_calibrated(model: Any) -> None:
    """Without, fifty frozen layers that do nothing let the features of the last stage vanish or explode."""
    with torch.no_grad():
        images = VARIANTS["reference"].spread * noise_images(1, 128, 128)
        features = model.backbone.body(images)
        levels = model.backbone(images)
    sizes = [feature.square().mean().sqrt().item() for feature in (*features.values(), *levels.values())]
    assert all(0.2 < size < 4 for size in sizes), sizes
    norms = [module for module in model.modules() if isinstance(module, FrozenNorm)]
    assert len(norms) == 53
    assert not any(norm.is_measuring for norm in norms)


def test_calibration_follows_the_seed() -> None:
    backbone = resnet_fpn_backbone(
        backbone_name="resnet50", weights=None, norm_layer=FrozenNorm, trainable_layers=3, returned_layers=[1, 2]
    )
    found = []
    for seed in (7, 7, 8):
        torch.manual_seed(seed)
        calibrate(backbone, spread=1.0)
        found.append(backbone.body.layer2[3].bn3.running_var.clone())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp"])
def test_a_synthetic_step_in_every_precision(model: Any, precision: str) -> None:
    batch = workload.synthetic_batch(
        batch_size=1, size=TINY, num_classes=80, generator=torch.Generator().manual_seed(0)
    )
    (target,) = batch["targets"]
    assert batch["images"][0].shape == (64, 96, 3)
    assert len(target["boxes"]) == 7
    assert (target["boxes"][:, 2:] > target["boxes"][:, :2] + 1).all()
    assert (target["boxes"] >= 0).all()
    assert (target["boxes"] <= torch.tensor([96, 64, 96, 64])).all()
    assert (target["masks"].flatten(1).sum(1) > 0).all()
    dtype = {"fp32": None, "bf16": torch.bfloat16, "amp": torch.float16}[precision]
    model.zero_grad()
    with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
        loss = workload.compute_loss(model, batch)
    loss.backward()
    assert math.isfinite(loss.item())
    assert loss.dtype is torch.float32
    missing = [name for name, value in model.named_parameters() if value.requires_grad and value.grad is None]
    assert not missing


def test_five_losses_and_an_image_without_objects(model: Any) -> None:
    image = torch.randint(0, 256, (64, 64, 3), dtype=torch.uint8)
    empty = {
        "boxes": torch.zeros((0, 4)),
        "labels": torch.zeros(0, dtype=torch.int64),
        "masks": torch.zeros((0, 64, 64), dtype=torch.uint8),
    }
    losses, _ = model([image], [empty])
    names = {"loss_objectness", "loss_rpn_box_reg", "loss_classifier", "loss_box_reg", "loss_mask"}
    assert set(losses) == names
    model.zero_grad()
    loss = workload.compute_loss(model, {"images": [image], "targets": [empty]})
    loss.backward()
    # Several devices wait for every gradient, also on the one that had nothing to outline.
    assert all(value.grad is not None for value in model.parameters() if value.requires_grad)
    assert losses["loss_mask"].item() == losses["loss_box_reg"].item() == 0
    assert math.isfinite(loss.item())


def test_boxes_are_computed_in_float32_under_bfloat16(model: Any) -> None:
    """In bfloat16 an anchor at 1000 would stand on a grid of four pixels."""
    features = [torch.zeros((1, 256, 2, 2), dtype=torch.bfloat16)]
    with torch.autocast("cpu", torch.bfloat16):
        scores, offsets = model.rpn.head([features[0]])
        class_scores, box_offsets = model.roi_heads.box_predictor(torch.zeros(1, 1024))
    kinds = {tensor.dtype for tensor in (scores[0], offsets[0], class_scores, box_offsets)}
    assert kinds == {torch.float32}
    anchors = model.rpn.anchor_generator(ImageList(torch.zeros(1, 3, 64, 64), [(64, 64)]), features * 5)
    assert anchors[0].dtype is torch.float32


def test_schedule() -> None:
    """Warm-up over 500 iterations from a third, steps at 33,000 and 44,000 of 45,000, linear in the global batch."""
    schedule = CARD.schedule
    assert peak_learning_rate(schedule, global_batch=32) == pytest.approx(0.04)
    assert peak_learning_rate(schedule, global_batch=4) == pytest.approx(0.005)
    rates = [learning_rate(schedule, peak=0.04, step=step, num_steps=45_000) for step in (0, 249, 499, 32_999)]
    assert rates == pytest.approx([0.04 * (1 / 3 + 2 / 3 / 500), 0.04 * 2 / 3, 0.04, 0.04])
    assert learning_rate(schedule, peak=0.04, step=33_000, num_steps=45_000) == pytest.approx(0.004)
    assert learning_rate(schedule, peak=0.04, step=44_000, num_steps=45_000) == pytest.approx(0.0004)
    assert schedule.epochs * CARD.num_train_samples / 32 == pytest.approx(45_000)


def test_warm_up_has_500_steps_at_every_batch_size() -> None:
    for num_steps in (45_000, 360_000, 11_250):  # global batches of 32, 4 and 128
        rates = [learning_rate(CARD.schedule, peak=0.03, step=step, num_steps=num_steps) for step in (0, 249, 499)]
        assert rates == pytest.approx([0.03 * (1 / 3 + 2 / 3 / 500), 0.02, 0.03])
    short = CARD.schedule.epochs / 10
    rates = [learning_rate(CARD.schedule, peak=0.03, step=step, num_steps=4_500, epochs=short) for step in (24, 49, 50)]
    assert rates == pytest.approx([0.02, 0.03, 0.03]), "a tenth of the epochs"


# -- the data ----------------------------------------------------------------------------------------------------------


def test_order_keeps_shapes_together_and_no_image_comes_twice(pipeline: CocoImages) -> None:
    images = pipeline._train.images
    is_tall = (images.heights > images.widths)[pipeline._used]
    order = pipeline.order(seed=0, epoch=0, global_batch=4)
    assert len(order) == pipeline.num_train // 4 * 4 > 16
    assert len(set(order.tolist())) == len(order)
    kinds = [len(set(is_tall[batch].tolist())) for batch in order.reshape(-1, 4)]
    assert sum(kind == 2 for kind in kinds) <= 1  # what remained of both
    assert not np.array_equal(order, pipeline.order(seed=0, epoch=1, global_batch=4))
    np.testing.assert_array_equal(order, pipeline.order(seed=0, epoch=0, global_batch=4))


def test_a_sample_follows_its_generator_and_mirrors_all_alike(pipeline: CocoImages) -> None:
    index = next(i for i in range(pipeline.num_train) if len(pipeline._train.instances.of_image(pipeline._used[i])) > 1)
    seeds = range(8)
    samples = [pipeline.train_sample(index, np.random.default_rng(seed)).arrays for seed in seeds]
    flips = [np.random.default_rng(seed).random() < 0.5 for seed in seeds]
    assert len(set(flips)) == 2
    straight, mirrored = samples[flips.index(False)], samples[flips.index(True)]
    np.testing.assert_array_equal(mirrored["image"], straight["image"][:, ::-1])
    np.testing.assert_array_equal(mirrored["masks"], straight["masks"][:, :, ::-1])
    for arrays in (straight, mirrored):
        for box, mask in zip(arrays["boxes"], arrays["masks"], strict=True):
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            assert box.tolist() == [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]


def test_crowds_are_not_trained_on(pipeline: CocoImages) -> None:
    split = pipeline._train
    for index in range(pipeline.num_train):
        numbers = list(split.instances.of_image(pipeline._used[index]))
        sample = pipeline.train_sample(index, np.random.default_rng(0))
        assert len(sample.arrays["labels"]) == (~split.instances.is_crowd[numbers]).sum()
        assert sample.arrays["boxes"].shape == (len(sample.arrays["labels"]), 4)


def test_training_images_without_objects_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "set"
    make_coco(root, num_images=8, val_fraction=0, num_workers=1, mean_size=(48, 64))

    def empty_two(content: Any) -> None:
        first, second = (content["images"][place]["id"] for place in (1, 2))
        content["annotations"] = [found for found in content["annotations"] if found["image_id"] != first]
        for found in content["annotations"]:
            if found["image_id"] == second:
                found["bbox"][2] = 1.0

    before = open_data(root, size=TINY)._used.tolist()
    assert {1, 2} <= set(before), "both had objects"
    rewrite(root, "train2017", empty_two)
    assert open_data(root, size=TINY)._used.tolist() == [image for image in before if image not in (1, 2)]
    rewrite(root, "train2017", lambda content: content["annotations"].clear())
    with pytest.raises(DataError, match="no training image"):
        open_data(root, size=TINY)


def rewrite(root: Path, split: str, change: Any) -> None:
    path = root / f"annotations/instances_{split}.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_faults_of_images_are_named_and_what_is_there_is_used(tmp_path: Path) -> None:
    root = tmp_path / "set"
    make_coco(root, num_images=4, val_fraction=0, num_workers=1, mean_size=(48, 64))
    paths = sorted((root / "train2017").iterdir())
    paths[0].write_bytes(paths[0].read_bytes()[:-400])
    paths[1].write_bytes(b"no picture")
    rewrite(root, "train2017", lambda content: content["images"][2].update(height=99))
    pipeline = open_data(root, size=TINY)
    paths[3].unlink()  # in the middle of a run
    sample = pipeline.train_sample(0, np.random.default_rng(0))
    assert sample.problems[0][0] == f"train2017/{paths[0].name}"
    assert "what is there is used" in sample.problems[0][1]
    for index, words in ((1, "not a JPEG"), (2, "but the annotations say"), (3, "No such file")):
        with pytest.raises(UnusableSampleError) as caught:
            pipeline.train_sample(index, np.random.default_rng(0))
        assert caught.value.path == f"train2017/{paths[index].name}"
        assert words in caught.value.problem


def test_a_bad_annotation_is_among_the_sample_problems(tmp_path: Path) -> None:
    root = tmp_path / "set"
    make_coco(root, num_images=2, val_fraction=0, num_workers=1, mean_size=(48, 64))
    rewrite(root, "train2017", lambda content: content["annotations"][0].update(bbox=[3, 3, 0, 9]))
    pipeline = open_data(root, size=TINY)
    index = next(iter(pipeline._train.problems))
    ((path, problem),) = pipeline.train_sample(index, np.random.default_rng(0)).problems
    assert path == pipeline._train.path(index)
    assert "bbox of zero size; skipped" in problem


# -- the metric --------------------------------------------------------------------------------------------------------


def truth_of(root: Path, annotations: list[dict[str, Any]], num_images: int = 2) -> Truth:
    """Images 1, 2, ... of 40 x 40 pixels, two categories with ids 3 and 8."""
    from trainmark.datasets.coco.parse import parse_split

    (root / "annotations").mkdir(parents=True)
    images = [{"id": n, "file_name": f"{n}.jpg", "height": 40, "width": 40} for n in range(1, num_images + 1)]
    records = [{"id": number, "iscrowd": 0, **record} for number, record in enumerate(annotations)]
    content = {"images": images, "annotations": records, "categories": [{"id": 3}, {"id": 8}]}
    (root / "annotations/instances_val2017.json").write_text(json.dumps(content))
    split, faults = parse_split(root, Part(name="val2017", folder="val2017"))
    assert split is not None
    assert not faults
    return Truth(split)


def square(image: int, category: int, left: int, top: int, side: int, **more: Any) -> dict[str, Any]:
    right, bottom = left + side, top + side
    ring = [left, top, right, top, right, bottom, left, bottom]
    box = {"bbox": [left, top, side, side], "segmentation": [ring], "area": side * side}
    return {"image_id": image, "category_id": category, **box, **more}


def item(image: int, *found: tuple[int, float, tuple[int, int, int, int]]) -> dict[str, Any]:
    """(label, score, (left, top, width, height)), the mask as the box."""
    from pycocotools import mask as coco_mask

    masks = []
    for _, _, (left, top, width, height) in found:
        mask = np.zeros((40, 40), dtype=np.uint8, order="F")
        mask[top : top + height, left : left + width] = 1
        masks.append(coco_mask.encode(mask)["counts"].decode())
    labels, scores, boxes = [f[0] for f in found], [f[1] for f in found], [list(f[2]) for f in found]
    return {"image_id": image, "size": [40, 40], "boxes": boxes, "scores": scores, "labels": labels, "masks": masks}


def test_average_precision_by_hand(tmp_path: Path) -> None:
    """Class 1: found exactly. Class 2: one of two found, after a false alarm of a higher score.

    Precision at the only hit of class 2 is 1/2, for recalls 0 to .50: 51 of the 101 points, so its AP is 51/101/2.
    The hit overlaps by 16 x 20 of 20 x 20 = .8, so it counts at .5, .55, ... .8: at seven of the ten thresholds.
    """
    truth = truth_of(tmp_path, [square(1, 3, 0, 0, 20), square(1, 8, 20, 20, 20), square(2, 8, 0, 0, 20)])
    scores = [
        item(1, (1, 0.9, (0, 0, 20, 20)), (2, 0.5, (20, 20, 16, 20))),
        item(2, (2, 0.8, (20, 20, 10, 10))),
    ]
    ap50 = (1 + 51 / 101 / 2) / 2
    ap = (1 + 0.7 * 51 / 101 / 2) / 2
    expected = {"box_ap": ap, "box_ap50": ap50, "mask_ap": ap, "mask_ap50": ap50}
    assert metric.summarise(scores, truth) == pytest.approx(expected)


def test_a_crowd_forgives_what_is_found_in_it(tmp_path: Path) -> None:
    crowd = square(1, 3, 20, 0, 20, iscrowd=1)
    truth = truth_of(tmp_path, [square(1, 3, 0, 0, 20), crowd])
    inside = item(1, (1, 0.9, (25, 5, 5, 5)), (1, 0.8, (0, 0, 20, 20)))
    outside = item(1, (1, 0.9, (5, 25, 5, 5)), (1, 0.8, (0, 0, 20, 20)))
    assert metric.summarise([inside], truth)["box_ap50"] == pytest.approx(1)
    assert metric.summarise([outside], truth)["box_ap50"] == pytest.approx(0.5)


def test_ranks_in_any_order_and_an_image_twice_change_nothing(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, [square(1, 3, 0, 0, 20), square(2, 8, 0, 0, 20)])
    first, second = item(1, (1, 0.9, (0, 0, 20, 20)), (1, 0.95, (20, 0, 9, 9))), item(2, (2, 0.9, (0, 0, 20, 20)))
    whole = metric.summarise([first, second], truth)
    assert whole == metric.summarise([second, first], truth)
    assert whole == metric.summarise([first, second, first], truth)


def test_only_images_that_were_looked_at_count(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, [square(1, 3, 0, 0, 20), square(2, 3, 0, 0, 20)])
    found = item(1, (1, 0.9, (0, 0, 20, 20)))
    assert metric.summarise([found], truth)["mask_ap"] == pytest.approx(1)
    assert metric.summarise([found, item(2)], truth)["mask_ap50"] == pytest.approx(51 / 101)


def test_nothing_found_is_0_and_nothing_to_find_is_no_number(tmp_path: Path, capsys: Any) -> None:
    truth = truth_of(tmp_path, [square(1, 3, 0, 0, 20)])
    assert metric.summarise([item(1)], truth) == {"box_ap": 0, "box_ap50": 0, "mask_ap": 0, "mask_ap50": 0}
    assert metric.summarise([item(2)], truth) == {}
    assert metric.summarise([], truth) == {}
    assert capsys.readouterr().out == ""  # stdout is for results


def test_items_of_a_model_are_plain_and_in_the_image_own_pixels(pipeline: CocoImages, model: Any) -> None:
    model.eval()
    batch = collate([pipeline.eval_sample(index).arrays for index in range(2)])
    with torch.no_grad():
        items = workload.score(model, batch)
    model.train()
    assert json.loads(json.dumps(items)) == items
    val = pipeline._val
    assert val is not None
    assert [found["image_id"] for found in items] == val.images.ids[:2].tolist()
    assert [found["size"] for found in items] == [
        [int(val.images.heights[i]), int(val.images.widths[i])] for i in (0, 1)
    ]
    for found in items:
        assert len(found["boxes"]) == len(found["scores"]) == len(found["labels"]) == len(found["masks"])
        for left, top, width, height in found["boxes"]:
            assert left >= 0
            assert top >= 0
            assert left + width <= found["size"][1] + 0.01
            assert top + height <= found["size"][0] + 0.01
