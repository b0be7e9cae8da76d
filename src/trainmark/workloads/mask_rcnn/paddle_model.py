"""Mask R-CNN R50-FPN in Paddle, in NVIDIA's configuration: the stages of `torch_model` by the same names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn
from paddle.nn import functional

from trainmark.workloads.mask_rcnn.data import SIDE_MULTIPLE, STD, ngc_size
from trainmark.workloads.mask_rcnn.paddle_heads import RegionHeads
from trainmark.workloads.mask_rcnn.paddle_norm import FrozenNorm, calibrate
from trainmark.workloads.mask_rcnn.paddle_proposals import Proposals
from trainmark.workloads.paddle import normalise, resize
from trainmark.workloads.paddle_layers import BatchNorm2D, convolution
from trainmark.workloads.paddle_resnet import Bottleneck, ResNet

_MEAN = (122.7717 / 255, 115.9465 / 255, 102.9801 / 255)
_STD = (1 / 255, 1 / 255, 1 / 255)
"""Of red, green and blue, for values 0 to 1; the network sees blue, green, red."""
_CHANNELS = 256
_LEVELS = ("0", "1", "2", "3", "pool")


class Body(ResNet):
    """ResNet-50 without its classifier; norms are frozen, and so are the stem and the first stage."""

    def __init__(self) -> None:
        super().__init__(num_classes=1)
        del self.fc
        _freeze_norms(self)
        for block in self.sublayers():
            if isinstance(block, Bottleneck) and block.conv2._stride != [1, 1]:
                block.conv1._stride, block.conv2._stride = block.conv2._stride, [1, 1]
        for parameter in (*self.conv1.parameters(), *self.layer1.parameters()):
            parameter.stop_gradient = True

    def forward(self, images: Tensor) -> list[Tensor]:
        x = functional.relu(self.bn1(self.conv1(images)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        features = []
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
            features.append(x)
        return features


def _freeze_norms(model: nn.Layer) -> None:
    for layer in model.sublayers(include_self=True):
        for name, child in layer.named_children():
            if isinstance(child, BatchNorm2D):
                setattr(layer, name, FrozenNorm(child._num_features))


class Pyramid(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        widths = (256, 512, 1024, 2048)
        self.inner_blocks = nn.LayerList(
            [nn.Sequential(convolution(width, _CHANNELS, 1, bias=True)) for width in widths]
        )
        self.layer_blocks = nn.LayerList(
            [nn.Sequential(convolution(_CHANNELS, _CHANNELS, 3, bias=True)) for _ in widths]
        )
        for block in (*self.inner_blocks, *self.layer_blocks):
            shape, dtype = block[0].weight.shape, block[0].weight.dtype
            limit = math.sqrt(3 / math.prod(shape[1:]))
            block[0].weight.set_value(paddle.uniform(shape, dtype=dtype, min=-limit, max=limit))
            block[0].bias.set_value(paddle.zeros_like(block[0].bias))

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        """P2 to P6, finest first."""
        inner = [block(feature) for block, feature in zip(self.inner_blocks, features, strict=True)]
        for level in (2, 1, 0):
            above = functional.interpolate(inner[level + 1], size=inner[level].shape[2:], mode="nearest")
            inner[level] = inner[level] + above
        results = [block(x) for block, x in zip(self.layer_blocks, inner, strict=True)]
        return [*results, functional.max_pool2d(results[-1], 1, stride=2)]


class Backbone(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.fpn = Body(), Pyramid()

    def forward(self, images: Tensor) -> list[Tensor]:
        return self.fpn(self.body(images))


class MaskRCNN(nn.Layer):
    def __init__(self, *, num_outputs: int, short_side: int, num_regions: int) -> None:
        """`num_outputs` counts the background; `num_regions` are sampled per image to train on."""
        super().__init__()
        self._short_side = short_side
        self.backbone = Backbone()
        calibrate(self.backbone, spread=sum(typical / own for typical, own in zip(STD, _STD, strict=True)) / 3)
        self.rpn = Proposals(_CHANNELS)
        self.roi_heads = RegionHeads(_CHANNELS, num_outputs=num_outputs, num_regions=num_regions)

    def forward(self, images: list[Tensor], targets: list[Any] | None = None) -> Any:
        """In training the losses and the pyramid's features by name; else one dict of detections per image."""
        sizes = [ngc_size(image.shape[0], image.shape[1], self._short_side) for image in images]
        batch = _make_batch(images, sizes)
        features = self.backbone(batch)
        whole = (batch.shape[2], batch.shape[3])
        if targets is None:
            proposals, _ = self.rpn(features, whole, sizes, None)
            found = self.roi_heads.detect(features[:4], proposals, sizes)
            return [_to_image(item, size, image) for item, size, image in zip(found, sizes, images, strict=True)]
        pairs = zip(targets, images, sizes, strict=True)
        resized = [_resized_target(target, image.shape[:2], size) for target, image, size in pairs]
        proposals, losses = self.rpn(features, whole, sizes, resized)
        losses |= self.roi_heads.losses(features[:4], proposals, resized)
        return losses, dict(zip(_LEVELS, features, strict=True))


def _make_batch(images: list[Tensor], sizes: list[tuple[int, int]]) -> Tensor:
    height, width = (-(-max(sides) // SIDE_MULTIPLE) * SIDE_MULTIPLE for sides in zip(*sizes, strict=True))
    padded = []
    for image, size in zip(images, sizes, strict=True):
        planes = resize(normalise(image, _MEAN, _STD).flip(0).unsqueeze(0), size)
        padded.append(functional.pad(planes, [0, width - size[1], 0, height - size[0]]))
    return paddle.concat(padded)


def _resized_target(target: Any, old: list[int], new: tuple[int, int]) -> dict[str, Any]:
    """On the host, as arrays."""
    arrays = {name: value.numpy() for name, value in target.items()}
    down, right = new[0] / old[0], new[1] / old[1]
    dtype = np.dtype(paddle.get_default_dtype())
    boxes = arrays["boxes"].reshape(-1, 4).astype(dtype) * np.array([right, down, right, down], dtype=dtype)
    masks = arrays["masks"]
    if len(masks) and masks.shape[1:] != new:
        masks = masks[:, _nearest(old[0], new[0])][:, :, _nearest(old[1], new[1])]
    return {**arrays, "boxes": boxes, "masks": masks, "size": new}


def _nearest(old: int, new: int) -> NDArray[np.int64]:
    return np.minimum(np.floor(np.arange(new) * np.float32(old / new)).astype(np.int64), old - 1)


def _to_image(item: dict[str, Any], size: tuple[int, int], image: Tensor) -> dict[str, Any]:
    """Boxes in pixels of the image."""
    height, width = image.shape[:2]
    down, right = height / size[0], width / size[1]
    boxes = item["boxes"] * np.array([right, down, right, down], dtype=item["boxes"].dtype)
    return {**item, "boxes": boxes, "size": (height, width)}
