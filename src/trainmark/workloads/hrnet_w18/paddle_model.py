"""HRNet-W18 with the FCN head of the recipe in Paddle: the layers of `torch_network`, by the same names."""

from __future__ import annotations

from collections.abc import Sequence

import paddle
from paddle import Tensor, nn
from paddle.nn import functional

from trainmark.workloads.paddle import resize
from trainmark.workloads.paddle_layers import BatchNorm2D, convolution, initialise_default

CHANNELS = (18, 36, 72, 144)
_STEM_CHANNELS = 64
_STAGE_1_CHANNELS = 256
_BLOCKS_PER_BRANCH = 4
_NUM_MODULES = {2: 1, 3: 4, 4: 3}
"""By the number of branches of the stage."""


class Network(nn.Layer):
    """Images of any size to class scores of the same size."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _convolve(3, _STEM_CHANNELS, 3, stride=2), _convolve(_STEM_CHANNELS, _STEM_CHANNELS, 3, stride=2)
        )
        self.stage1 = nn.Sequential(*(Bottleneck(_STAGE_1_CHANNELS if n else _STEM_CHANNELS) for n in range(4)))
        first, second = CHANNELS[:2]
        self.enter = nn.LayerList(
            [_convolve(_STAGE_1_CHANNELS, first, 3), _convolve(_STAGE_1_CHANNELS, second, 3, stride=2)]
        )
        self.stage2 = _stage(2)
        self.down3 = _convolve(CHANNELS[1], CHANNELS[2], 3, stride=2)
        self.stage3 = _stage(3)
        self.down4 = _convolve(CHANNELS[2], CHANNELS[3], 3, stride=2)
        self.stage4 = _stage(4)
        width = sum(CHANNELS)
        self.mix = _convolve(width, width, 1)
        self.classify = convolution(width, num_classes, 1)
        initialise_default(self)

    def forward(self, images: Tensor) -> Tensor:
        shared = self.stage1(self.stem(images))
        branches = self.stage2([enter(shared) for enter in self.enter])
        branches = self.stage3([*branches, self.down3(branches[-1])])
        branches = self.stage4([*branches, self.down4(branches[-1])])
        finest = branches[0].shape[2:]
        features = paddle.concat([branches[0], *(resize(branch, finest) for branch in branches[1:])], axis=1)
        return resize(self.classify(self.mix(features)), images.shape[2:])


class Exchange(nn.Layer):
    """Four basic blocks on each branch, then every branch becomes the sum of all branches at its resolution."""

    def __init__(self, num_branches: int) -> None:
        super().__init__()
        channels = CHANNELS[:num_branches]
        self.branches = nn.LayerList(
            [nn.Sequential(*(BasicBlock(width) for _ in range(_BLOCKS_PER_BRANCH))) for width in channels]
        )
        self.paths = nn.LayerList(
            [nn.LayerList([_path(source, target) for source in range(num_branches)]) for target in range(num_branches)]
        )

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        branches = [blocks(x) for blocks, x in zip(self.branches, inputs, strict=True)]
        return [self._gather(target, branches) for target in range(len(branches))]

    def _gather(self, target: int, branches: Sequence[Tensor]) -> Tensor:
        total, size = branches[target], branches[target].shape[2:]
        for source, branch in enumerate(branches):
            if source != target:
                part = self.paths[target][source](branch)
                total = total + (resize(part, size) if source > target else part)
        return functional.relu(total)


class BasicBlock(nn.Layer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_convolve(width, width, 3), _convolve(width, width, 3, relu=False))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + x)


class Bottleneck(nn.Layer):
    """1x1 down to 64 channels, 3x3, 1x1 up to 256."""

    def __init__(self, num_inputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolve(num_inputs, _STEM_CHANNELS, 1),
            _convolve(_STEM_CHANNELS, _STEM_CHANNELS, 3),
            _convolve(_STEM_CHANNELS, _STAGE_1_CHANNELS, 1, relu=False),
        )
        fits = num_inputs == _STAGE_1_CHANNELS
        self.shortcut = nn.Identity() if fits else _convolve(num_inputs, _STAGE_1_CHANNELS, 1, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def _stage(num_branches: int) -> nn.Sequential:
    return nn.Sequential(*(Exchange(num_branches) for _ in range(_NUM_MODULES[num_branches])))


def _path(source: int, target: int) -> nn.Layer:
    """From one branch's channels to another's: a chain of halvings downwards, a 1x1 upwards (the resize follows)."""
    inputs, outputs = CHANNELS[source], CHANNELS[target]
    if source == target:
        return nn.Identity()
    if source > target:
        return _convolve(inputs, outputs, 1, relu=False)
    halvings = [_convolve(inputs, inputs, 3, stride=2) for _ in range(target - source - 1)]
    return nn.Sequential(*halvings, _convolve(inputs, outputs, 3, stride=2, relu=False))


def _convolve(inputs: int, outputs: int, kernel: int, *, stride: int = 1, relu: bool = True) -> nn.Sequential:
    """Halvings have the `same` padding of PaddleSeg: on an even side one zero after the picture, none before."""
    if stride == 1:
        layer = convolution(inputs, outputs, kernel)
    else:
        layer = nn.Conv2D(inputs, outputs, kernel, stride=stride, padding="SAME", bias_attr=False)
    return nn.Sequential(layer, BatchNorm2D(outputs), *([nn.ReLU()] if relu else []))
