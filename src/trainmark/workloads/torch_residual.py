"""Residual stages in parts that the compiler sees several times, and compiles once for each kind.

A part begins behind the last convolution of one block and ends behind that of the next. Convolutions are kernels of a
library, which write their output in any case; so the cut costs nothing, while a cut between the blocks would cost one
more pass over the sum of both paths in each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.resnet import ResNet

from trainmark.workloads.torch_norm import norm_add_relu, norm_relu
from trainmark.workloads.torch_parts import run_part, uncompiled


class Started(NamedTuple):
    """What the last convolutions of a block made of its input, and the input where that is the shortcut.

    A part must return nothing that is not used: autograd would fill a gradient of zeros for it, and add it.
    """

    x: Tensor | None
    branch: Tensor
    shortcut: Tensor | None


class Unjoined(NamedTuple):
    """The two paths of a block before their norms and their sum."""

    branch: Tensor
    norm: nn.Module
    shortcut: Tensor
    shortcut_norm: nn.Module | None


@uncompiled
def run_stages(stages: Sequence[Any], first: Started, *, keeps_outputs: bool = False) -> tuple[list[Tensor], Unjoined]:
    """All blocks of torchvision's Bottleneck after the start of the first.

    Returns the outputs of all stages but the last if asked to, and of the last one the paths of its last block.
    """
    outputs: list[Tensor] = []
    unjoined = _paths(stages[0][0], first)
    for number, stage in enumerate(stages):
        for block in stage[1:] if number == 0 else stage:
            is_output = keeps_outputs and block is stage[0]
            started: Started = run_part(_next_block, block, is_output, *unjoined)
            unjoined = _paths(block, started)
            if is_output:
                assert started.x is not None
                outputs.append(started.x)
    return outputs, unjoined


@uncompiled
def _paths(block: Any, started: Started) -> Unjoined:
    if started.shortcut is not None:
        return Unjoined(started.branch, block.bn3, started.shortcut, block.downsample[1])
    assert started.x is not None
    return Unjoined(started.branch, block.bn3, started.x, None)


# -- compiled parts ----------------------------------------------------------------------------------------------------


def _next_block(
    block: Any, keeps_input: bool, branch: Tensor, norm: Any, shortcut: Tensor, shortcut_norm: Any
) -> Started:
    x, for_shortcut = norm_add_relu(norm, branch, _normalise(shortcut, shortcut_norm))
    return start_block(block, x, for_shortcut, keeps_input=keeps_input)


def start_block(block: Any, x: Tensor, for_shortcut: Tensor | None = None, *, keeps_input: bool = False) -> Started:
    """Up to the last convolution of the block, and that of its shortcut.

    `for_shortcut`: `x` under a second name, so that its gradient arrives separately.
    """
    for_shortcut = x if for_shortcut is None else for_shortcut
    branch = norm_relu(block.bn1, block.conv1(x))
    branch = norm_relu(block.bn2, block.conv2(branch))
    branch = block.conv3(branch)
    if block.downsample is None:
        return Started(for_shortcut, branch, None)
    return Started(for_shortcut if keeps_input else None, branch, block.downsample[0](for_shortcut))


def join(branch: Tensor, norm: Any, shortcut: Tensor, shortcut_norm: Any) -> Tensor:
    return functional.relu(norm(branch) + _normalise(shortcut, shortcut_norm))


def _normalise(shortcut: Tensor, norm: Any) -> Tensor:
    normalised: Tensor = shortcut if norm is None else norm(shortcut)
    return normalised


class PartedResNet(ResNet):  # type: ignore[misc]
    """torchvision's ResNet with bottlenecks: same parameters under the same names, same function."""

    @uncompiled
    def forward(self, x: Tensor, *for_classifier: Tensor) -> Tensor:
        first = run_part(_enter, self, x)
        _, last = run_stages((self.layer1, self.layer2, self.layer3, self.layer4), first)
        logits: Tensor = run_part(_leave, self, for_classifier, *last)
        return logits

    def classify(self, features: Tensor) -> Tensor:
        """Of the mean over each channel's pixels."""
        logits: Tensor = self.fc(features)
        return logits


def _enter(network: Any, images: Tensor) -> Started:
    x = network.maxpool(norm_relu(network.bn1, network.conv1(images)))
    return start_block(network.layer1[0], x)


def _leave(
    network: Any,
    for_classifier: Sequence[Tensor],
    branch: Tensor,
    norm: Any,
    shortcut: Tensor,
    shortcut_norm: Any,
) -> Tensor:
    features = network.avgpool(join(branch, norm, shortcut, shortcut_norm)).flatten(1)
    logits: Tensor = network.classify(features, *for_classifier)
    return logits
