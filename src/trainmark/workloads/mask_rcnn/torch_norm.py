"""BatchNorm with fixed statistics, and how to choose them without pretrained weights.

A frozen BatchNorm of mean 0 and variance 1 does nothing, and the activations of fifty random convolutions without
normalisation vanish or explode. So before training from scratch the statistics are measured once, layer by layer, on
noise images that resemble the input; after that they are fixed, as in the recipe.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.resnet import Bottleneck
from torchvision.ops import FeaturePyramidNetwork, FrozenBatchNorm2d

from trainmark.workloads.torch import at_least_float32

_OCTAVES = (4, 8, 16, 32, 64, 128)
_IMAGES, _SIDE = 2, 192

_RESIDUAL_SCALE = 0.25
"""Scale of what a block adds to its input. With more, a network with fixed statistics diverges."""
_FEATURE_SIZE = 0.5
"""Standard deviation of the pyramid's outputs."""


class FrozenNorm(FrozenBatchNorm2d):  # type: ignore[misc]  # torchvision has no types
    """torchvision's as one kernel that keeps half precision: theirs multiplies, adds and promotes to float32."""

    is_measuring = False

    def forward(self, x: Tensor) -> Tensor:
        if self.is_measuring:
            var, mean = torch.var_mean(at_least_float32(x), dim=(0, 2, 3), correction=0)
            self.running_mean.copy_(mean)
            self.running_var.copy_(var)
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )


@torch.no_grad()
def calibrate(backbone: BackboneWithFPN, *, spread: float) -> None:
    """One forward pass in which each norm measures its input and passes it on normalised.

    `spread` is the standard deviation of the inputs to come.
    """
    norms = [module for module in backbone.modules() if isinstance(module, FrozenNorm)]
    for block in backbone.modules():
        if isinstance(block, Bottleneck):
            block.bn3.weight.fill_(_RESIDUAL_SCALE)
    for norm in norms:
        norm.is_measuring = True
    features = backbone.body(spread * noise_images(_IMAGES, _SIDE, _SIDE))
    for norm in norms:
        norm.is_measuring = False
    _centre(backbone.fpn, features)


def _centre(pyramid: FeaturePyramidNetwork, features: dict[str, Tensor]) -> None:
    """The pyramid's outputs start with mean 0 and a given standard deviation.

    The output of a ReLU has a mean larger than its spread. Over the 12,544 inputs of the first linear layer that is one
    direction so steep that the training diverges within ten steps at a learning rate of .02.
    """
    for lateral, feature in zip(pyramid.inner_blocks, features.values(), strict=True):
        lateral[0].bias.copy_(-functional.conv2d(feature, lateral[0].weight).mean(dim=(0, 2, 3)))
    outputs = torch.cat([level.flatten() for level in pyramid(features).values()])
    for lateral in pyramid.inner_blocks:  # everything up to here is linear: the outputs scale with the laterals
        lateral[0].weight.mul_(_FEATURE_SIZE / outputs.std())
        lateral[0].bias.mul_(_FEATURE_SIZE / outputs.std())


def noise_images(num_images: int, height: int, width: int, generator: torch.Generator | None = None) -> Tensor:
    """Normalised images with detail at every scale, mostly grey, and some grain, like photographs."""
    device = None if generator is None else generator.device

    def noise(channels: int, rows: int, columns: int) -> Tensor:
        return torch.randn((num_images, channels, rows, columns), generator=generator, device=device)

    total = 0.3 * noise(3, height, width)
    for cells in _OCTAVES:
        coarse = noise(1, cells, cells) + 0.5 * noise(3, cells, cells)
        total += functional.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=False)
    return total / total.std(dim=(2, 3), keepdim=True)
