"""Layers of Paddle that compute what the recipes mean, and their initial weights.

Names of sublayers and parameters follow the PyTorch reference, so that weights can be exchanged
(`worker/paddle/weights.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import paddle
from paddle import Tensor, _C_ops, nn
from paddle.nn import functional

_MOMENTUM = 0.1
"""Share of a batch in the running statistics."""


class BatchNorm2D(nn.BatchNorm2D):
    """Paddle's kernel with the usual running statistics.

    Paddle's own keeps the biased variance, and its momentum in float32. So the kernel is asked for the statistics of
    the batch alone (momentum 0), and they are added up here. The kernel's epsilon is in float32 too: the float64 of a
    parity check, where 1e-5 must be 1e-5, is computed step by step.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self._normalise(x, self._mean, self._variance)
        result, mean, variance = self._normalise_batch(x)
        self._track(mean, variance, x.shape[0] * x.shape[2] * x.shape[3])
        return result

    def _normalise_batch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """And its mean and biased variance."""
        if x.dtype == paddle.float64:
            return self._normalise_exactly(x)
        mean, variance = paddle.zeros_like(self._mean), paddle.zeros_like(self._variance)
        return self._normalise(x, mean, variance), mean, variance

    def _normalise(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return functional.batch_norm(
            x,
            mean,
            variance,
            self.weight,
            self.bias,
            training=self.training,
            momentum=0.0,
            epsilon=self._epsilon,
        )

    def _normalise_exactly(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = x.mean(axis=[0, 2, 3], keepdim=True)
        centred = x - mean
        variance = centred.square().mean(axis=[0, 2, 3], keepdim=True)
        scale = self.weight.reshape([1, -1, 1, 1]) * paddle.rsqrt(variance + self._epsilon)
        result = centred * scale + self.bias.reshape([1, -1, 1, 1])
        return result, mean.flatten(), variance.flatten()

    @paddle.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        self._mean.lerp_(mean, _MOMENTUM)
        self._variance.lerp_(variance * (count / max(count - 1, 1)), _MOMENTUM)


class SyncBatchNorm(BatchNorm2D):
    """The same over all processes. For GPUs only: Paddle has no such kernel for the CPU.

    Not Paddle's own layer, whose kernel writes the statistics of a batch where the running ones belong.
    """

    def __init__(self, plain: BatchNorm2D, *, num_ranks: int) -> None:
        super().__init__(plain._num_features, epsilon=plain._epsilon)
        self.weight, self.bias = plain.weight, plain.bias
        self._mean, self._variance = plain._mean, plain._variance
        self._num_ranks = num_ranks

    def _normalise_batch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = paddle.zeros_like(self._mean), paddle.zeros_like(self._variance)
        is_test, momentum, uses_running, trains_statistics = False, 0.0, False, False
        result, *_ = _C_ops.sync_batch_norm_(
            x,
            mean,
            variance,
            self.weight,
            self.bias,
            is_test,
            momentum,
            self._epsilon,
            "NCHW",
            uses_running,
            trains_statistics,
        )
        return result, mean, variance

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        super()._track(mean, variance, self._num_ranks * count)


def convolution(inputs: int, outputs: int, size: int, *, stride: int = 1, bias: bool = False) -> nn.Conv2D:
    """Padded by half its size."""
    return nn.Conv2D(inputs, outputs, size, stride=stride, padding=size // 2, bias_attr=None if bias else False)


def batch_norms(model: nn.Layer) -> Iterator[nn.Layer]:
    return (layer for layer in model.sublayers(include_self=True) if isinstance(layer, nn.BatchNorm2D))


@paddle.no_grad()
def initialise_default(model: nn.Layer) -> None:
    """As PyTorch does it: weights and biases uniform within 1 / sqrt(inputs)."""
    for layer in model.sublayers(include_self=True):
        if isinstance(layer, nn.Conv2D | nn.Linear):
            shape = layer.weight.shape
            fan_in = shape[0] if isinstance(layer, nn.Linear) else math.prod(shape[1:])
            _fill_uniform(layer.weight, 1 / math.sqrt(fan_in))
            if layer.bias is not None:
                _fill_uniform(layer.bias, 1 / math.sqrt(fan_in))


@paddle.no_grad()
def initialise_he(model: nn.Layer) -> None:
    """Convolutions: normal, with a variance of 2 over their outputs' connections, as in torchvision's ResNet."""
    for layer in model.sublayers(include_self=True):
        if isinstance(layer, nn.Conv2D):
            shape = layer.weight.shape
            fill_normal(layer.weight, math.sqrt(2 / (shape[0] * shape[2] * shape[3])))


@paddle.no_grad()
def fill_normal(parameter: Tensor, spread: float) -> None:
    parameter.set_value(paddle.randn(parameter.shape, dtype=parameter.dtype) * spread)


def _fill_uniform(parameter: Tensor, limit: float) -> None:
    parameter.set_value(paddle.uniform(parameter.shape, dtype=parameter.dtype, min=-limit, max=limit))
