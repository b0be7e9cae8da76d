"""PSENet's network, as in `torch_model`: ResNet-50 with a deep stem, a feature pyramid, and seven maps."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from trainmark.workloads.jax import at_least_float32
from trainmark.workloads.jax_layers import Layers, batch_norm, convolve, relu
from trainmark.workloads.jax_pool import max_pool
from trainmark.workloads.jax_resize import resize
from trainmark.workloads.jax_resnet import stages
from trainmark.workloads.psenet.card import NUM_KERNELS

_WIDTH = 256


def network(layers: Layers, images: Array) -> Array:
    """Logits of the maps, at least float32: the loss sums over half a million pixels."""
    x = _convolve(layers, "stem.0", images, 64, 3, stride=2)
    x = _convolve(layers, "stem.1", x, 64, 3)
    x = max_pool(_convolve(layers, "stem.2", x, 128, 3))
    features = stages(layers, x)
    pyramid = [_convolve(layers, f"laterals.{level}", part, _WIDTH, 1) for level, part in enumerate(features)]
    for level in (2, 1, 0):
        total = pyramid[level] + resize(pyramid[level + 1], pyramid[level].shape[1:3])
        pyramid[level] = _convolve(layers, f"smooths.{level}", total, _WIDTH, 3)
    finest = pyramid[0].shape[1:3]
    together = jnp.concatenate([pyramid[0], *(resize(part, finest) for part in pyramid[1:])], axis=-1)
    maps = convolve(layers, "head.1", _convolve(layers, "head.0", together, _WIDTH, 3), NUM_KERNELS, 1, has_bias=True)
    return resize(at_least_float32(maps), images.shape[1:3])


def _convolve(layers: Layers, name: str, x: Array, num_out: int, size: int, *, stride: int = 1) -> Array:
    return relu(batch_norm(layers, f"{name}.1", convolve(layers, f"{name}.0", x, num_out, size, stride=stride)))
