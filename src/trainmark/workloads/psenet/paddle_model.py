"""PSENet's network in Paddle: ResNet-50 with a deep stem, a feature pyramid, and seven maps in the input's size."""

from __future__ import annotations

import paddle
from paddle import Tensor, nn

from trainmark.workloads.paddle import at_least_float, resize
from trainmark.workloads.paddle_layers import BatchNorm2D, convolution, initialise_he
from trainmark.workloads.paddle_resnet import LAYERS, Bottleneck, stage
from trainmark.workloads.psenet.card import NUM_KERNELS

_WIDTH = 256


class PSENet(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv_norm_relu(3, 64, size=3, stride=2),
            _conv_norm_relu(64, 64, size=3),
            _conv_norm_relu(64, 128, size=3),
            nn.MaxPool2D(3, stride=2, padding=1),
        )
        self.layer1 = stage(Bottleneck, 128, 64, num_blocks=LAYERS[0], stride=1)
        self.layer2 = stage(Bottleneck, 256, 128, num_blocks=LAYERS[1], stride=2)
        self.layer3 = stage(Bottleneck, 512, 256, num_blocks=LAYERS[2], stride=2)
        self.layer4 = stage(Bottleneck, 1024, 512, num_blocks=LAYERS[3], stride=2)
        self.laterals = nn.LayerList([_conv_norm_relu(width, _WIDTH, size=1) for width in (256, 512, 1024, 2048)])
        self.smooths = nn.LayerList([_conv_norm_relu(_WIDTH, _WIDTH, size=3) for _ in range(3)])
        self.head = nn.Sequential(
            _conv_norm_relu(4 * _WIDTH, _WIDTH, size=3), convolution(_WIDTH, NUM_KERNELS, 1, bias=True)
        )
        initialise_he(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the maps, at least float32 in every precision: the loss sums over half a million pixels."""
        features = []
        x = self.stem(images)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
            features.append(x)
        pyramid = [lateral(feature) for lateral, feature in zip(self.laterals, features, strict=True)]
        for level in (2, 1, 0):
            above = resize(pyramid[level + 1], pyramid[level].shape[2:])
            pyramid[level] = self.smooths[level](pyramid[level] + above)
        finest = pyramid[0].shape[2:]
        together = paddle.concat([pyramid[0], *(resize(part, finest) for part in pyramid[1:])], axis=1)
        return resize(at_least_float(self.head(together)), images.shape[2:])


def _conv_norm_relu(num_in: int, num_out: int, *, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(convolution(num_in, num_out, size, stride=stride), BatchNorm2D(num_out), nn.ReLU())
