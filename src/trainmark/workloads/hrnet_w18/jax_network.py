"""HRNet-W18 with the FCN head of the recipe, as in `torch_network`: the same layers under the same names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax.numpy as jnp
from jax import Array

from trainmark.workloads.jax_layers import Layers, batch_norm, convolve, relu, torch_default
from trainmark.workloads.jax_resize import resize

CHANNELS = (18, 36, 72, 144)
_STEM_CHANNELS = 64
_STAGE_1_CHANNELS = 256
_STAGE_1_BLOCKS = 4
_BLOCKS_PER_BRANCH = 4
_NUM_MODULES = {2: 1, 3: 4, 4: 3}
"""By the number of branches of the stage."""


def network(layers: Layers, images: Array, *, num_classes: int) -> Array:
    """Images of any size to class scores of the same size."""
    convolved = partial(_convolve, layers)
    x = convolved("stem.0", images, _STEM_CHANNELS, 3, stride=2)
    x = convolved("stem.1", x, _STEM_CHANNELS, 3, stride=2)
    for number in range(_STAGE_1_BLOCKS):
        x = _bottleneck(layers, f"stage1.{number}", x)
    first, second = CHANNELS[:2]
    branches = [convolved("enter.0", x, first, 3), convolved("enter.1", x, second, 3, stride=2)]
    for stage in (2, 3, 4):
        if stage > 2:
            down = convolved(f"down{stage}", branches[-1], CHANNELS[stage - 1], 3, stride=2)
            branches = [*branches, down]
        for number in range(_NUM_MODULES[stage]):
            branches = _exchange(layers, f"stage{stage}.{number}", branches)
    finest = branches[0].shape[1:3]
    features = jnp.concatenate([branches[0], *(resize(branch, finest) for branch in branches[1:])], axis=-1)
    mixed = convolved("mix", features, sum(CHANNELS), 1)
    return resize(convolve(layers, "classify", mixed, num_classes, 1, initial=torch_default), images.shape[1:3])


def _exchange(layers: Layers, name: str, inputs: Sequence[Array]) -> list[Array]:
    """Four basic blocks on each branch, then every branch becomes the sum of all branches at its resolution."""
    branches = []
    for number, branch in enumerate(inputs):
        x = branch
        for block in range(_BLOCKS_PER_BRANCH):
            x = _basic_block(layers, f"{name}.branches.{number}.{block}", x)
        branches.append(x)
    return [_gather(layers, f"{name}.paths.{target}", target, branches) for target in range(len(branches))]


def _gather(layers: Layers, name: str, target: int, branches: Sequence[Array]) -> Array:
    total, size = branches[target], branches[target].shape[1:3]
    for source, branch in enumerate(branches):
        if source != target:
            part = _path(layers, f"{name}.{source}", branch, source, target)
            total = total + (resize(part, size) if source > target else part)
    return relu(total)


def _path(layers: Layers, name: str, x: Array, source: int, target: int) -> Array:
    """From one branch's channels to another's: a chain of halvings downwards, a 1x1 upwards (the resize follows)."""
    if source > target:
        return _convolve(layers, name, x, CHANNELS[target], 1, has_relu=False)
    num_halvings = target - source - 1
    for number in range(num_halvings):
        x = _convolve(layers, f"{name}.{number}", x, CHANNELS[source], 3, stride=2)
    return _convolve(layers, f"{name}.{num_halvings}", x, CHANNELS[target], 3, stride=2, has_relu=False)


def _basic_block(layers: Layers, name: str, x: Array) -> Array:
    width = x.shape[-1]
    y = _convolve(layers, f"{name}.body.0", x, width, 3)
    return relu(_convolve(layers, f"{name}.body.1", y, width, 3, has_relu=False) + x)


def _bottleneck(layers: Layers, name: str, x: Array) -> Array:
    """1x1 down to 64 channels, 3x3, 1x1 up to 256."""
    y = _convolve(layers, f"{name}.body.0", x, _STEM_CHANNELS, 1)
    y = _convolve(layers, f"{name}.body.1", y, _STEM_CHANNELS, 3)
    y = _convolve(layers, f"{name}.body.2", y, _STAGE_1_CHANNELS, 1, has_relu=False)
    if x.shape[-1] != _STAGE_1_CHANNELS:
        x = _convolve(layers, f"{name}.shortcut", x, _STAGE_1_CHANNELS, 1, has_relu=False)
    return relu(y + x)


def _convolve(
    layers: Layers, name: str, x: Array, num_out: int, size: int, *, stride: int = 1, has_relu: bool = True
) -> Array:
    """Halvings are padded as PaddleSeg pads them."""
    y = convolve(layers, f"{name}.0", x, num_out, size, stride=stride, is_same=stride > 1, initial=torch_default)
    y = batch_norm(layers, f"{name}.1", y)
    return relu(y) if has_relu else y
