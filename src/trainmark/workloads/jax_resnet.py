"""ResNet-50 v1.5 for several workloads: stem and residual stages, under the names of torchvision's parameters."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from trainmark.workloads.jax_layers import (
    Kind,
    Layers,
    batch_norm,
    convolve,
    convolve_by,
    he_normal,
    parameter,
    relu,
)
from trainmark.workloads.jax_pool import max_pool

WIDTHS = (64, 128, 256, 512)
NUM_BLOCKS = (3, 4, 6, 3)
_EXPANSION = 4

_BLOCK_CHANNELS = 8
"""The tensor cores want channels in multiples of this: 12 become 16."""


def stem(layers: Layers, images: Array) -> Array:
    """7x7 of stride 2 and a max-pool."""
    is_even = images.shape[1] % 2 == images.shape[2] % 2 == 0
    x = _convolve_blocks(layers, "conv1", images) if layers.is_fast and is_even else _convolve(layers, "conv1", images)
    return max_pool(relu(batch_norm(layers, "bn1", x)))


def _convolve(layers: Layers, name: str, images: Array) -> Array:
    return convolve(layers, name, images, WIDTHS[0], 7, stride=2)


def _convolve_blocks(layers: Layers, name: str, images: Array) -> Array:
    """The same as a convolution of stride 1 on 2x2 blocks of pixels: 3 channels at 224 become 12 at 112.

    A zero row and column before the 7x7 kernel make it 8x8; blocks of 2x2 become channels of both image and kernel.
    """
    weight = parameter(layers, f"{name}.weight", (WIDTHS[0], 3, 7, 7), Kind.WEIGHT, he_normal)
    extra = -4 * 3 % _BLOCK_CHANNELS
    kernel = jnp.pad(weight, ((0, 0), (0, 0), (1, 0), (1, 0))).reshape(WIDTHS[0], 3, 4, 2, 4, 2)
    kernel = kernel.transpose(0, 3, 5, 1, 2, 4).reshape(WIDTHS[0], 12, 4, 4)
    n, height, width, _ = images.shape
    blocks = images.reshape(n, height // 2, 2, width // 2, 2, 3).transpose(0, 1, 3, 2, 4, 5)
    blocks = blocks.reshape(n, height // 2, width // 2, 12)
    blocks = jnp.pad(blocks, ((0, 0), (0, 0), (0, 0), (0, extra)))
    kernel = jnp.pad(kernel, ((0, 0), (0, extra), (0, 0), (0, 0)))
    return convolve_by(layers, blocks, kernel, 1, [(2, 1), (2, 1)])


def bottleneck(
    layers: Layers, name: str, x: Array, width: int, *, stride: int, before: Callable[[Array], Array]
) -> Array:
    """1x1, 3x3 with the stride, 1x1. `before` is applied inside the residual branch only."""
    y = relu(batch_norm(layers, f"{name}.bn1", convolve(layers, f"{name}.conv1", before(x), width, 1)))
    y = relu(batch_norm(layers, f"{name}.bn2", convolve(layers, f"{name}.conv2", y, width, 3, stride=stride)))
    y = batch_norm(layers, f"{name}.bn3", convolve(layers, f"{name}.conv3", y, _EXPANSION * width, 1))
    if stride != 1 or x.shape[-1] != _EXPANSION * width:
        x = convolve(layers, f"{name}.downsample.0", x, _EXPANSION * width, 1, stride=stride)
        x = batch_norm(layers, f"{name}.downsample.1", x)
    return relu(y + x)


def stages(layers: Layers, x: Array, *, before: Callable[[Array], Array] = lambda x: x) -> list[Array]:
    """The outputs of layer1 to layer4."""
    outputs = []
    for number, (width, num_blocks) in enumerate(zip(WIDTHS, NUM_BLOCKS, strict=True)):
        for block in range(num_blocks):
            stride = 2 if block == 0 and number > 0 else 1
            x = bottleneck(layers, f"layer{number + 1}.{block}", x, width, stride=stride, before=before)
        outputs.append(x)
    return outputs


def pool(x: Array) -> Array:
    """The mean over the picture, in at least float32 as PyTorch accumulates it."""
    return x.mean((1, 2), dtype=jnp.promote_types(x.dtype, jnp.float32)).astype(x.dtype)
