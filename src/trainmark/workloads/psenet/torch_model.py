"""PSENet's network: torchvision's ResNet-50 with a deep stem, a feature pyramid, and seven maps in the input's size."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.resnet import Bottleneck, ResNet

from trainmark.workloads.psenet.card import NUM_KERNELS
from trainmark.workloads.torch import at_least_float32

_WIDTH = 256


class PSENet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        backbone = ResNet(Bottleneck, [3, 4, 6, 3])
        self.stem = nn.Sequential(
            _conv_norm_relu(3, 64, size=3, stride=2),
            _conv_norm_relu(64, 64, size=3),
            _conv_norm_relu(64, 128, size=3),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        backbone.inplanes = 128  # what the deep stem gives; torchvision's own gives 64
        self.layer1 = backbone._make_layer(Bottleneck, 64, 3)
        self.layer2, self.layer3, self.layer4 = backbone.layer2, backbone.layer3, backbone.layer4
        self.laterals = nn.ModuleList(_conv_norm_relu(width, _WIDTH, size=1) for width in (256, 512, 1024, 2048))
        self.smooths = nn.ModuleList(_conv_norm_relu(_WIDTH, _WIDTH, size=3) for _ in range(3))
        self.head = nn.Sequential(_conv_norm_relu(4 * _WIDTH, _WIDTH, size=3), nn.Conv2d(_WIDTH, NUM_KERNELS, 1))
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the maps, at least float32: the loss sums over half a million pixels."""
        features = []
        x = self.stem(images)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
            features.append(x)
        pyramid = [lateral(feature) for lateral, feature in zip(self.laterals, features, strict=True)]
        for level in (2, 1, 0):
            pyramid[level] = self.smooths[level](pyramid[level] + _resize_like(pyramid[level + 1], pyramid[level]))
        together = torch.cat([pyramid[0], *(_resize_like(part, pyramid[0]) for part in pyramid[1:])], dim=1)
        return _resize_like(at_least_float32(self.head(together)), images)


def _resize_like(x: Tensor, other: Tensor) -> Tensor:
    return functional.interpolate(x, size=other.shape[2:], mode="bilinear", align_corners=False)


def _conv_norm_relu(num_in: int, num_out: int, *, size: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(num_in, num_out, size, stride=stride, padding=size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(num_out), nn.ReLU(inplace=True))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
