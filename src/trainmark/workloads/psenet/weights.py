"""PSENet's tensors, the names of its public checkpoints, and of ImageNet's ResNet-50 with and without the deep stem."""

from __future__ import annotations

from trainmark.workloads.layout import (
    Arrays,
    Layout,
    Origin,
    Shapes,
    convolution,
    pair,
    rewrite,
    starts_with,
    together,
)
from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.resnet50 import weights as resnet50

CLASS_LAYERS: tuple[str, ...] = ()
"""The maps are kernels, not classes."""
_WIDTH = 256
_STEM = ((3, 64), (64, 64), (64, 128))
_BODY = ("layer1.", "layer2.", "layer3.", "layer4.")
_HEAD_BIAS = "head.0.0.bias"


def tensor_shapes(num_classes: int) -> Shapes:  # noqa: ARG001 - the same for every number
    stem = together(pair(f"stem.{number}", *widths, 3) for number, widths in enumerate(_STEM))
    laterals = together(pair(f"laterals.{level}", 256 << level, _WIDTH, 1) for level in range(4))
    smooths = together(pair(f"smooths.{level}", _WIDTH, _WIDTH, 3) for level in range(3))
    head = pair("head.0", 4 * _WIDTH, _WIDTH, 3) | convolution("head.1", _WIDTH, NUM_KERNELS, 1, bias=True)
    return stem | resnet50.body_shapes(stem_width=128) | laterals | smooths | head


_DEEP_STEM = [(rf"{kind}{number + 1}\.", f"stem.{number}.{place}.")
    for number in range(3) for place, kind in enumerate(("conv", "bn"))]  # fmt: skip
_PYRAMID = {"toplayer": 3, "latlayer1": 2, "latlayer2": 1, "latlayer3": 0}
_PUBLIC = [
    *((rf"backbone\.{old}", new) for old, new in _DEEP_STEM),
    (r"backbone\.", ""),
    *((rf"fpn\.{old}_\.conv\.", f"laterals.{level}.0.") for old, level in _PYRAMID.items()),
    *((rf"fpn\.{old}_\.bn\.", f"laterals.{level}.1.") for old, level in _PYRAMID.items()),
    *((rf"fpn\.smooth{3 - level}_\.conv\.", f"smooths.{level}.0.") for level in range(3)),
    *((rf"fpn\.smooth{3 - level}_\.bn\.", f"smooths.{level}.1.") for level in range(3)),
    (r"det_head\.conv1\.", "head.0.0."),
    (r"det_head\.bn1\.", "head.0.1."),
    (r"det_head\.conv2\.", "head.1."),
]


def _fold_bias(arrays: Arrays, _: Origin) -> Arrays:
    """The public head has a bias in front of its BatchNorm, which subtracts it again: it belongs to the mean."""
    bias = arrays.pop(_HEAD_BIAS, None)
    if bias is not None:
        arrays["head.0.1.running_mean"] = arrays["head.0.1.running_mean"] - bias
    return arrays


def _rename_deep(name: str) -> str | None:
    return None if name.startswith(resnet50.CLASSIFIER) else rewrite(name, _DEEP_STEM)


def _rename_plain(name: str) -> str | None:
    """Nothing of the plain stem: a 7x7 convolution has no place in three 3x3."""
    return name if name.startswith(_BODY) else None


LAYOUTS = (
    Layout(name="trainmark", rename=lambda name: name),
    Layout(
        name="PSENet's public checkpoints",
        rename=lambda name: rewrite(name, _PUBLIC),
        helpers=frozenset({_HEAD_BIAS}),
        finish=_fold_bias,
    ),
    Layout(name="ResNet-50 with the deep stem, of CSAIL", rename=_rename_deep, covers=starts_with("stem.", *_BODY)),
    Layout(
        name="ResNet-50 of torchvision or timm",
        rename=_rename_plain,
        covers=starts_with(*_BODY),
        differing=frozenset({"layer1.0.conv1.weight", "layer1.0.downsample.0.weight"}),
    ),
)
