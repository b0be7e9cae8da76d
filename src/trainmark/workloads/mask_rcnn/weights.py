"""Mask R-CNN's tensors, torchvision's names for them, new and old, and the backbone of ImageNet."""

from __future__ import annotations

import numpy as np

from trainmark.workloads.layout import (
    Arrays,
    Layout,
    Origin,
    Shapes,
    batch_norm,
    convolution,
    linear,
    rewrite,
    starts_with,
    together,
)
from trainmark.workloads.mask_rcnn.data import MEAN, STD
from trainmark.workloads.resnet50 import weights as resnet50

CLASS_LAYERS = ("roi_heads.box_predictor.", "roi_heads.mask_predictor.mask_fcn_logits.")
_WIDTH = 256
_BODY = "backbone.body."
_NGC_MEAN = np.array([122.7717, 115.9465, 102.9801]) / 255
"""Of red, green and blue."""


def tensor_shapes(num_classes: int) -> Shapes:
    num_outputs = num_classes + 1  # the background
    body = convolution("conv1", 3, 64, 7) | batch_norm("bn1", 64) | resnet50.body_shapes(stem_width=64)
    levels = range(4)
    inner = together(convolution(f"inner_blocks.{level}.0", 256 << level, _WIDTH, 1, bias=True) for level in levels)
    layers = together(convolution(f"layer_blocks.{level}.0", _WIDTH, _WIDTH, 3, bias=True) for level in levels)
    rpn = [
        convolution("rpn.head.conv.0.0", _WIDTH, _WIDTH, 3, bias=True),
        convolution("rpn.head.cls_logits", _WIDTH, 3, 1, bias=True),
        convolution("rpn.head.bbox_pred", _WIDTH, 12, 1, bias=True),
    ]
    boxes = [
        linear("roi_heads.box_head.fc6", _WIDTH * 7 * 7, 1024),
        linear("roi_heads.box_head.fc7", 1024, 1024),
        linear("roi_heads.box_predictor.cls_score", 1024, num_outputs),
        linear("roi_heads.box_predictor.bbox_pred", 1024, 4 * num_outputs),
    ]
    masks = [convolution(f"roi_heads.mask_head.{number}.0", _WIDTH, _WIDTH, 3, bias=True) for number in range(4)]
    last = [
        convolution("roi_heads.mask_predictor.conv5_mask", _WIDTH, _WIDTH, 2, bias=True),
        convolution("roi_heads.mask_predictor.mask_fcn_logits", _WIDTH, num_outputs, 1, bias=True),
    ]
    pyramid = {f"backbone.fpn.{name}": shape for name, shape in (inner | layers).items()}
    return {f"{_BODY}{name}": shape for name, shape in body.items()} | pyramid | together([*rpn, *boxes, *masks, *last])


_OLD_NAMES = [
    (r"(backbone\.fpn\.(?:inner|layer)_blocks\.\d)\.(weight|bias)", r"\1.0.\2"),
    (r"rpn\.head\.conv\.(weight|bias)", r"rpn.head.conv.0.0.\1"),
    *((rf"roi_heads\.mask_head\.mask_fcn{number + 1}\.", f"roi_heads.mask_head.{number}.0.") for number in range(4)),
]


def _rename_backbone(name: str) -> str | None:
    return None if name.startswith(resnet50.CLASSIFIER) else f"{_BODY}{name}"


def _see_colours(arrays: Arrays, origin: Origin) -> Arrays:
    """NVIDIA's configuration has pixels as blue, green, red from 0 to 255, weights of torchvision have them normalised.

    The first convolution takes the scale and the order; what the two means differ by is the same everywhere inside an
    image, so it goes into the mean of the norm that follows.
    """
    if origin.recipe == "torchvision" or origin.is_own:
        return arrays
    kernel = arrays[f"{_BODY}conv1.weight"].astype(np.float64)
    shift = (_NGC_MEAN - MEAN) / STD
    constant = np.einsum("oihw,i->o", kernel, shift)
    scaled = kernel / (255 * np.array(STD))[None, :, None, None]
    mean = f"{_BODY}bn1.running_mean"
    return {
        **arrays,
        f"{_BODY}conv1.weight": scaled[:, ::-1].astype(np.float32),
        mean: (arrays[mean] - constant).astype(np.float32),
    }


def _start_pyramid(arrays: Arrays, origin: Origin) -> Arrays:
    """The pyramid on a trained backbone starts as in the public code; ours is calibrated for a random backbone."""
    rng = np.random.default_rng(origin.seed)
    for name, shape in tensor_shapes(1).items():
        if name.startswith("backbone.fpn."):
            bound = np.sqrt(3 / np.prod(shape[1:])) if len(shape) == 4 else 0.0
            arrays[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    return _see_colours(arrays, origin)


LAYOUTS = (
    Layout(name="Mask R-CNN of torchvision", rename=lambda name: rewrite(name, _OLD_NAMES), finish=_see_colours),
    Layout(
        name="ResNet-50 of torchvision or timm",
        rename=_rename_backbone,
        covers=starts_with(_BODY),
        finish=_start_pyramid,
    ),
    Layout(
        name="ResNet-50 of PaddleClas",
        rename=lambda name: _rename_backbone(resnet50.rename_paddleclas(name)),
        covers=starts_with(_BODY),
        finish=_start_pyramid,
    ),
)
