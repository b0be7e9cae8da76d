"""Layers of public checkpoints find their place in our models, and those of other networks none."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from torch.nn import functional

from trainmark.weights.known import find_known, known_files
from trainmark.weights.matching import Match, find_match, read_match
from trainmark.weights.neutral import WeightsError
from trainmark.weights.reading import WeightsFile
from trainmark.weights.stored import StoredTensor, StoredWeights
from trainmark.workloads.layout import Origin, Shapes
from trainmark.workloads.mask_rcnn.data import MEAN, STD
from trainmark.workloads.registry import load_card, load_module

FIXTURES = Path(__file__).parents[2] / "fixtures" / "weights"
WORKLOADS = ("resnet50", "tsm", "psenet", "mask_rcnn", "hrnet_w18")


def shapes_of(workload: str, num_classes: int) -> Shapes:
    shapes: Shapes = load_module(workload, "weights").tensor_shapes(num_classes)
    return shapes


def stored_from(shapes: Mapping[str, Any], *, is_paddle: bool = False, is_own: bool = False) -> StoredWeights:
    """Every tensor full of its own number, so that it can be recognised."""

    def tensor(number: int, shape: tuple[int, ...]) -> StoredTensor:
        return StoredTensor(shape=shape, dtype="float32", read=lambda: np.full(shape, number, np.float32))

    tensors = {name: tensor(number, tuple(shape)) for number, (name, shape) in enumerate(shapes.items())}
    return StoredWeights(kind="test", tensors=tensors, is_paddle=is_paddle, is_own=is_own)


def match_of(stored: StoredWeights, workload: str, num_classes: int = 10) -> Match:
    return find_match(stored, workload, shapes_of(workload, num_classes))


def sources_of(match: Match, stored: StoredWeights) -> dict[str, str]:
    """The file's name by ours."""
    names = list(stored.tensors)
    return {ours: names[int(tensor.read().flat[0])] for ours, tensor in match.sources.items()}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_list_of_tensors_is_that_of_the_model(workload: str) -> None:
    size = load_card(workload).sizes["small"]
    build = load_module(workload, "torch").build_model
    with torch.device("meta"):
        model = build(recipe="reference", device_type="cpu", num_classes=7, size=size)
    real = {name: tuple(t.shape) for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    assert shapes_of(workload, 7) == real


@pytest.mark.parametrize("workload", WORKLOADS)
def test_our_own_names_load_completely(workload: str) -> None:
    match = match_of(stored_from(shapes_of(workload, 10), is_own=True), workload)
    assert not match.kept
    assert not match.left_out


# -- the names of others -----------------------------------------------------------------------------------------------


def names_of(file: str) -> dict[str, list[int]]:
    """Written by the packages themselves: timm 1.0.30, paddleseg 2.8.0 and paddleclas 2.6.0."""
    names: dict[str, list[int]] = json.loads(gzip.decompress((FIXTURES / f"{file}.json.gz").read_bytes()))
    return names


@pytest.mark.parametrize("file", ["hrnet_timm", "hrnet_paddleseg", "hrnet_paddleclas"])
def test_every_layer_of_hrnet_has_its_own_source(file: str) -> None:
    stored = stored_from(names_of(file), is_paddle="paddle" in file)
    match = match_of(stored, "hrnet_w18", 19)
    head = {name for name in shapes_of("hrnet_w18", 19) if name.startswith(("mix.", "classify."))}
    assert set(match.kept) == (set() if file == "hrnet_paddleseg" else head)
    sources = sources_of(match, stored)
    assert len(set(sources.values())) == len(sources)
    expected = {
        "hrnet_timm": "stage4.2.fuse_layers.3.1.1.0.weight",
        "hrnet_paddleseg": "backbone.st4.stage_st4_3.fuse_func.residual_st4_3_layer_4_2_2._conv.weight",
        # 3 up from the first, 1 + 2 to the second, 2 + 1 + 1 to the third, then 3 and the second step of 2
        "hrnet_paddleclas": "st4.stage_func_list.2.fuse_func.residual_func_list.14.conv.weight",
    }
    assert sources["stage4.2.paths.3.1.1.0.weight"] == expected[file]


def test_convolutions_and_norms_of_hrnet_stay_together() -> None:
    """In the order of the file: a norm follows its convolution in all of them, as in our model."""
    for file in ("hrnet_timm", "hrnet_paddleseg", "hrnet_paddleclas"):
        stored = stored_from(names_of(file), is_paddle="paddle" in file)
        sources = sources_of(match_of(stored, "hrnet_w18", 19), stored)
        order = list(stored.tensors)
        for ours, theirs in sources.items():
            if ours.endswith(".0.weight") and f"{ours[:-9]}.1.bias" in sources:
                norm = order.index(sources[f"{ours[:-9]}.1.weight"]) - order.index(theirs)
                assert 0 < norm <= 3, (ours, theirs)


def test_linear_layers_of_paddle_are_turned(tmp_path: Path) -> None:
    values = np.arange(2048 * 10, dtype=np.float32).reshape(2048, 10)
    stored = stored_from(names_of("resnet50_paddleclas") | {"fc.weight": [2048, 10], "fc.bias": [10]}, is_paddle=True)
    linear = StoredTensor(shape=(2048, 10), dtype="float32", read=lambda: values)
    stored = StoredWeights(kind="Paddle", tensors={**stored.tensors, "fc.weight": linear}, is_paddle=True)
    match = match_of(stored, "resnet50")
    assert not match.kept
    np.testing.assert_array_equal(match.sources["fc.weight"].read(), values.T)
    assert sources_of(match, stored)["layer3.5.bn2.running_var"] == "blocks.12.conv1.bn._variance"


def tsm_names() -> dict[str, tuple[int, ...]]:
    """The public code wraps the model, the base network, and the first convolution of each residual block."""
    names = {}
    for name, shape in shapes_of("tsm", 400).items():
        wrapped = re.sub(r"^(layer\d\.\d\.conv1)\.", r"\1.net.", name)
        names["module.new_fc" + name[2:] if name.startswith("fc.") else f"module.base_model.{wrapped}"] = shape
    return names


def test_tsm_of_the_public_code() -> None:
    stored = stored_from(tsm_names())
    assert not match_of(stored, "tsm", 400).kept
    other = match_of(stored, "tsm", 10)
    assert other.kept == ("fc.weight", "fc.bias")
    assert [item.name for item in other.left_out] == ["new_fc.weight", "new_fc.bias"]
    assert other.left_out[0].why == "400x2048 in the file, 10x2048 in the model"


PSENET_PARTS = {
    "stem.0.0.": "backbone.conv1.", "stem.0.1.": "backbone.bn1.", "stem.1.0.": "backbone.conv2.",
    "stem.1.1.": "backbone.bn2.", "stem.2.0.": "backbone.conv3.", "stem.2.1.": "backbone.bn3.",
    "laterals.3.0.": "fpn.toplayer_.conv.", "laterals.3.1.": "fpn.toplayer_.bn.",
    "laterals.2.0.": "fpn.latlayer1_.conv.", "laterals.2.1.": "fpn.latlayer1_.bn.",
    "laterals.1.0.": "fpn.latlayer2_.conv.", "laterals.1.1.": "fpn.latlayer2_.bn.",
    "laterals.0.0.": "fpn.latlayer3_.conv.", "laterals.0.1.": "fpn.latlayer3_.bn.",
    "smooths.2.0.": "fpn.smooth1_.conv.", "smooths.2.1.": "fpn.smooth1_.bn.", "smooths.1.0.": "fpn.smooth2_.conv.",
    "smooths.1.1.": "fpn.smooth2_.bn.", "smooths.0.0.": "fpn.smooth3_.conv.", "smooths.0.1.": "fpn.smooth3_.bn.",
    "head.0.0.": "det_head.conv1.", "head.0.1.": "det_head.bn1.", "head.1.": "det_head.conv2.",
}  # fmt: skip
"""Names in the public code, by ours. p4 comes from latlayer1, whose feature map is the third of four."""


def psenet_names() -> dict[str, tuple[int, ...]]:
    names: dict[str, tuple[int, ...]] = {"module.det_head.conv1.bias": (256,)}
    for name, shape in shapes_of("psenet", 2).items():
        part = next((part for part in PSENET_PARTS if name.startswith(part)), None)
        theirs = f"backbone.{name}" if part is None else PSENET_PARTS[part] + name[len(part) :]
        names[f"module.{theirs}"] = shape
    return names


def test_psenet_of_the_public_code_with_its_extra_bias() -> None:
    stored = stored_from(psenet_names())
    match = match_of(stored, "psenet")
    assert not match.kept
    arrays = read_match(match, Origin(recipe="reference", is_own=False, seed=0))
    assert set(arrays) == set(shapes_of("psenet", 2))
    mean = list(stored.tensors).index("module.det_head.bn1.running_mean")
    assert arrays["head.0.1.running_mean"][0] == mean - 0  # the bias is tensor 0 of the file
    for ours, theirs in sources_of(match, stored).items():
        part = next((part for part in PSENET_PARTS if ours.startswith(part)), None)
        assert ours == "head.0.0.bias" or theirs.removeprefix("module.") == (
            f"backbone.{ours}" if part is None else PSENET_PARTS[part] + ours[len(part) :]
        )


def test_the_bias_before_a_norm_changes_nothing_else() -> None:
    x, weight, bias = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)
    mean, var = torch.randn(4), torch.rand(4) + 0.5
    with_bias = functional.batch_norm(functional.conv2d(x, weight, bias), mean, var)
    folded = functional.batch_norm(functional.conv2d(x, weight), mean - bias, var)
    torch.testing.assert_close(with_bias, folded)


def test_imagenet_goes_into_the_backbone_of_every_workload() -> None:
    with torch.device("meta"):
        model = torchvision.models.resnet50()
    imagenet = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    stored = stored_from(imagenet)
    assert match_of(stored, "resnet50", 1000).kept == ()
    assert match_of(stored, "tsm", 400).kept == ("fc.weight", "fc.bias")
    kept = match_of(stored, "psenet").kept
    assert {name.split(".")[0] for name in kept} == {"stem", "layer1", "laterals", "smooths", "head"}
    assert [name for name in kept if name.startswith("layer")] == [
        "layer1.0.conv1.weight",
        "layer1.0.downsample.0.weight",
    ]
    assert {name.split(".")[1] for name in match_of(stored, "mask_rcnn").kept} == {
        "fpn", "head", "box_head", "box_predictor", "mask_head", "mask_predictor",
    }  # fmt: skip
    deep = {name: shape for name, shape in psenet_names().items() if name.startswith("module.backbone.")}
    match = match_of(stored_from({name.removeprefix("module.backbone."): s for name, s in deep.items()}), "psenet")
    assert {name.split(".")[0] for name in match.kept} == {"laterals", "smooths", "head"}


def test_mask_rcnn_of_torchvision_with_new_and_old_names() -> None:
    with torch.device("meta"):
        model = torchvision.models.detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=11)
    new = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert not match_of(stored_from(new), "mask_rcnn").kept
    old = {}
    for name, shape in new.items():
        older = re.sub(r"(fpn\.\w+_blocks\.\d)\.0\.", r"\1.", name).replace("rpn.head.conv.0.0.", "rpn.head.conv.")
        old[re.sub(r"mask_head\.(\d)\.0\.", lambda m: f"mask_head.mask_fcn{int(m[1]) + 1}.", older)] = shape
    assert set(old) != set(new)
    assert not match_of(stored_from(old), "mask_rcnn").kept
    match = match_of(stored_from(new), "mask_rcnn", 5)
    assert {name.split(".")[1] for name in match.kept} == {"box_predictor", "mask_predictor"}
    assert len(match.kept) == 6


@pytest.mark.parametrize("recipe", ["reference", "torchvision"])
def test_the_first_layer_of_mask_rcnn_sees_the_same_image(recipe: str) -> None:
    """NVIDIA's pixels are BGR from 0 to 255 without the mean, torchvision's RGB and normalised."""
    model = torchvision.models.resnet50().eval()
    torch.nn.init.normal_(model.bn1.running_mean)
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    stored = {
        name: StoredTensor(shape=array.shape, dtype="float32", read=lambda array=array: array)
        for name, array in arrays.items()
    }
    match = match_of(StoredWeights(kind="test", tensors=stored), "mask_rcnn")
    found = read_match(match, Origin(recipe=recipe, is_own=False, seed=1))
    pixels = torch.randint(0, 256, (1, 3, 40, 40)).float()
    normalised = (pixels / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    centred = (pixels - torch.tensor([122.7717, 115.9465, 102.9801])[:, None, None]).flip(1)
    inputs = normalised if recipe == "torchvision" else centred
    first = {name: torch.from_numpy(array) for name, array in found.items() if ".bn1." in name or "conv1" in name}
    mean, var, scale, shift = (
        first[f"backbone.body.bn1.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    )
    ours = functional.conv2d(inputs, first["backbone.body.conv1.weight"], stride=2, padding=3)
    ours = functional.batch_norm(ours, mean, var, scale, shift)
    theirs = model.bn1(model.conv1(normalised)).detach()
    torch.testing.assert_close(ours[..., 2:-2, 2:-2], theirs[..., 2:-2, 2:-2], rtol=1e-4, atol=1e-4)
    pyramid = found["backbone.fpn.layer_blocks.0.0.weight"]
    assert pyramid.shape == (256, 256, 3, 3)
    assert abs(pyramid).max() <= (3 / 2304) ** 0.5 + 1e-7


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet101", "resnext50_32x4d", "vgg11"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_another_network_is_refused(name: str, workload: str) -> None:
    with torch.device("meta"):
        state = getattr(torchvision.models, name)().state_dict()
    with pytest.raises(WeightsError, match=r"of another network|nothing in it fits"):
        match_of(stored_from({key: tuple(tensor.shape) for key, tensor in state.items()}), workload, 1000)


def test_an_incomplete_file_is_refused_by_name() -> None:
    shapes = shapes_of("resnet50", 10)
    del shapes["layer4.2.bn3.running_var"]
    with pytest.raises(WeightsError, match=r"incomplete.*lacks layer4\.2\.bn3\.running_var"):
        match_of(stored_from(shapes), "resnet50")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [("conv1.weight", np.nan, "NaN"), ("fc.bias", np.inf, "NaN"), ("bn1.running_var", -1.0, "negative variance")],
)
def test_impossible_values_are_refused_by_name(name: str, value: float, problem: str) -> None:
    shapes = shapes_of("resnet50", 10)
    good = stored_from(shapes)
    bad = StoredTensor(shape=shapes[name], dtype="float32", read=lambda: np.full(shapes[name], value, np.float32))
    match = match_of(StoredWeights(kind="test", tensors={**good.tensors, name: bad}), "resnet50")
    with pytest.raises(WeightsError, match=f"{name}.*{problem}"):
        read_match(match, Origin(recipe="reference", is_own=False, seed=0))


def test_known_files_are_told_by_their_hash() -> None:
    known = next(file for file in known_files() if file.sha256_begin == "0676ba61")
    stored = StoredWeights(kind="test", tensors={})
    real = WeightsFile(name="renamed.pth", sha256=f"0676ba61{'0' * 56}", num_bytes=1, stored=stored)
    assert find_known(real) == f"{known.what}, as published: SHA-256 0676ba61..."
    fake = WeightsFile(name=known.name, sha256="f" * 64, num_bytes=1, stored=stored)
    assert find_known(fake) == "not the public file of this name: its SHA-256 begins with ffffffff"
    assert all(re.fullmatch("[0-9a-f]{8}", file.sha256_begin) for file in known_files() if file.sha256_begin)


def test_the_guide_lists_every_known_file() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "weights.md").read_text()
    for file in known_files():
        assert f"| `{file.name}` | {file.what} | {file.sha256_begin or 'not published'} |" in guide
