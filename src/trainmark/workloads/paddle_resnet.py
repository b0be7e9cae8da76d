"""ResNet-50 in Paddle with the names of torchvision's. paddle.vision has one with other names and statistics."""

from __future__ import annotations

from collections.abc import Sequence

from paddle import Tensor, nn
from paddle.nn import functional

from trainmark.workloads.paddle_layers import BatchNorm2D, convolution, initialise_default, initialise_he

LAYERS = (3, 4, 6, 3)
EXPANSION = 4


class Bottleneck(nn.Layer):
    """1x1, 3x3 with the stride (v1.5), 1x1 to four times the width."""

    def __init__(self, inputs: int, width: int, *, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1, self.bn1 = convolution(inputs, width, 1), BatchNorm2D(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride=stride), BatchNorm2D(width)
        self.conv3, self.bn3 = convolution(width, outputs, 1), BatchNorm2D(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride=stride), BatchNorm2D(outputs))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(self.enter(x))))
        x = functional.relu(self.bn2(self.conv2(x)))
        return functional.relu(self.bn3(self.conv3(x)) + shortcut)

    def enter(self, x: Tensor) -> Tensor:
        """What the residual branch sees of the input."""
        return x


def stage(block: type[Bottleneck], inputs: int, width: int, *, num_blocks: int, stride: int) -> nn.Sequential:
    blocks = [block(inputs, width, stride=stride)]
    blocks += [block(width * EXPANSION, width, stride=1) for _ in range(num_blocks - 1)]
    return nn.Sequential(*blocks)


class ResNet(nn.Layer):
    def __init__(
        self, *, num_classes: int, block: type[Bottleneck] = Bottleneck, layers: Sequence[int] = LAYERS
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(3, 64, 7, stride=2), BatchNorm2D(64)
        self.layer1 = stage(block, 64, 64, num_blocks=layers[0], stride=1)
        self.layer2 = stage(block, 256, 128, num_blocks=layers[1], stride=2)
        self.layer3 = stage(block, 512, 256, num_blocks=layers[2], stride=2)
        self.layer4 = stage(block, 1024, 512, num_blocks=layers[3], stride=2)
        self.fc = nn.Linear(2048, num_classes)
        initialise_default(self.fc)
        initialise_he(self)

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """One vector for each image."""
        x = functional.relu(self.bn1(self.conv1(images)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(axis=[2, 3])
