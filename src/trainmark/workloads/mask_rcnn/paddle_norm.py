"""BatchNorm with fixed statistics in Paddle, and how to choose them without pretrained weights; see `torch_norm`."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn
from paddle.nn import functional

from trainmark.workloads.paddle import at_least_float, resize
from trainmark.workloads.paddle_resnet import Bottleneck

_OCTAVES = (4, 8, 16, 32, 64, 128)
_IMAGES, _SIDE = 2, 192
_RESIDUAL_SCALE = 0.25
_FEATURE_SIZE = 0.5
_EPSILON = 1e-5


class FrozenNorm(nn.Layer):
    is_measuring = False

    def __init__(self, num_features: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, paddle.full([num_features], value, dtype=paddle.get_default_dtype()))

    def forward(self, x: Tensor) -> Tensor:
        if self.is_measuring:
            wide = at_least_float(x)
            self.running_mean.set_value(wide.mean(axis=[0, 2, 3]))
            self.running_var.set_value(wide.var(axis=[0, 2, 3], unbiased=False))
        if x.dtype == paddle.float64:  # the kernel's epsilon is in float32
            scale = self.weight * paddle.rsqrt(self.running_var + _EPSILON)
            shift = self.bias - self.running_mean * scale
            return x * scale.reshape([1, -1, 1, 1]) + shift.reshape([1, -1, 1, 1])
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, training=False, epsilon=_EPSILON
        )


@paddle.no_grad()
def calibrate(backbone: Any, *, spread: float) -> None:
    """One forward pass in which each norm measures its input and passes it on normalised.

    `spread` is the standard deviation of the inputs to come.
    """
    layers = backbone.sublayers()
    norms = [layer for layer in layers if isinstance(layer, FrozenNorm)]
    for layer in layers:
        if isinstance(layer, Bottleneck):
            layer.bn3.weight.set_value(paddle.full_like(layer.bn3.weight, _RESIDUAL_SCALE))
    for norm in norms:
        norm.is_measuring = True
    features = backbone.body(paddle.to_tensor(spread * noise_images(_IMAGES, _SIDE, _SIDE)))
    for norm in norms:
        norm.is_measuring = False
    _centre(backbone.fpn, features)


def _centre(pyramid: Any, features: list[Tensor]) -> None:
    """The pyramid's outputs start with mean 0 and a given standard deviation."""
    laterals = [block[0] for block in pyramid.inner_blocks]
    for lateral, feature in zip(laterals, features, strict=True):
        lateral.bias.set_value(-functional.conv2d(feature, lateral.weight).mean(axis=[0, 2, 3]))
    outputs = paddle.concat([level.flatten() for level in pyramid(features)])
    for lateral in laterals:  # everything up to here is linear: the outputs scale with the laterals
        for parameter in (lateral.weight, lateral.bias):
            parameter.set_value(parameter * (_FEATURE_SIZE / outputs.std()))


def noise_images(num_images: int, height: int, width: int) -> NDArray[Any]:
    """Normalised images with detail at every scale, mostly grey, and some grain, like photographs."""
    dtype = paddle.get_default_dtype()
    total = 0.3 * paddle.randn([num_images, 3, height, width], dtype=dtype)
    for cells in _OCTAVES:
        grey = paddle.randn([num_images, 1, cells, cells], dtype=dtype)
        coarse = grey + 0.5 * paddle.randn([num_images, 3, cells, cells], dtype=dtype)
        total = total + resize(coarse, (height, width))
    return np.asarray((total / total.std(axis=[2, 3], keepdim=True)).numpy())
