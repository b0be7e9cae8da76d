"""Layers as functions over jax.lax, with the names, the weight layouts and the semantics of PyTorch's.

Activations are NHWC, convolution weights OIHW and linear weights (out, in), so neutral weights need no conversion. A
network is a function of `Layers` and an input. Run once with nothing but shapes, it declares its parameters; run in a
step, it reads them. So no list of parameters has to be kept beside the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import NDArray

Initial = Callable[[np.random.Generator, Sequence[int]], NDArray[np.float32]]
"""First values of a parameter of some shape."""

_EPSILON = 1e-5
_MOMENTUM = 0.1
"""Of BatchNorm: the weight of the newest batch in the running statistics."""
_OVER = (0, 1, 2)
"""All dimensions but the channels."""


class Kind(Enum):
    WEIGHT = "weight"
    BIAS = "bias"
    NORM = "norm"
    STATISTIC = "statistic"
    """Of BatchNorm; not trained."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    shape: tuple[int, ...]
    kind: Kind
    initial: Initial


Declared = dict[str, Declaration]
"""By the name of PyTorch's state_dict."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """In which precision a pass computes. Parameters, BatchNorm's statistics and losses are not narrower than fp32."""

    dtype: DTypeLike
    """Of activations, and of weights where they are used."""
    precision: lax.Precision
    """HIGHEST: products in the full precision of `dtype`. DEFAULT: the device may use TF32 for fp32."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layers:
    """One pass through a network: the parameters that it reads and the statistics that it leaves."""

    weights: Mapping[str, Array]
    statistics: Mapping[str, Array]
    numbers: Numbers
    is_training: bool
    is_fast: bool = False
    synced_axis: str | None = None
    """BatchNorm computes its statistics over the devices of this axis."""
    key: Array | None = None
    """For dropout; None: nothing is dropped."""
    new_statistics: dict[str, Array] = field(default_factory=dict)
    declared: Declared | None = None
    """Filled instead of reading parameters, in a pass that only declares them."""


Forward = Callable[..., Array]
"""A network: `Layers` and images (n x height x width x 3) to its output."""


def declare(forward: Forward, shape: Sequence[int]) -> Declared:
    """The parameters of a network for images of this shape (n, height, width, 3). Nothing is computed."""
    declared: Declared = {}

    def run(images: Array) -> Array:
        numbers = Numbers(dtype=jnp.float32, precision=lax.Precision.DEFAULT)
        return forward(Layers(weights={}, statistics={}, numbers=numbers, is_training=True, declared=declared), images)

    jax.eval_shape(run, jax.ShapeDtypeStruct(tuple(shape), jnp.float32))
    return declared


def initialise(declared: Declared, seed: int) -> dict[str, NDArray[np.float32]]:
    """First values of parameters and statistics; each has random numbers of its own."""
    return {
        name: found.initial(np.random.default_rng([seed, number]), found.shape)
        for number, (name, found) in enumerate(declared.items())
    }


# -- initial values ----------------------------------------------------------------------------------------------------


def he_normal(rng: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
    """Kaiming's, over the outputs, for a ReLU."""
    deviation = np.float32(np.sqrt(2 / (shape[0] * np.prod(shape[2:]))))
    return rng.standard_normal(shape, dtype=np.float32) * deviation


def torch_default(rng: np.random.Generator, shape: Sequence[int], *, fan_in: int | None = None) -> NDArray[np.float32]:
    """PyTorch's for weights and biases of convolutions and linear layers: uniform within 1 / sqrt(inputs)."""
    bound = 1 / np.sqrt(fan_in or np.prod(shape[1:]))
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def normal(rng: np.random.Generator, shape: Sequence[int], *, deviation: float) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)


def zeros(_: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
    return np.zeros(shape, dtype=np.float32)


def ones(_: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
    return np.ones(shape, dtype=np.float32)


# -- layers ------------------------------------------------------------------------------------------------------------


def parameter(layers: Layers, name: str, shape: tuple[int, ...], kind: Kind, initial: Initial) -> Array:
    if layers.declared is not None:
        layers.declared[name] = Declaration(shape=shape, kind=kind, initial=initial)
        return jnp.zeros(shape)
    return layers.statistics[name] if kind is Kind.STATISTIC else layers.weights[name]


def convolve(
    layers: Layers,
    name: str,
    x: Array,
    num_out: int,
    size: int,
    *,
    stride: int = 1,
    has_bias: bool = False,
    is_same: bool = False,
    initial: Initial = he_normal,
) -> Array:
    """Padded by half of the kernel on all sides, or as Paddle's `same`: an odd zero comes after the picture."""
    weight = parameter(layers, f"{name}.weight", (num_out, x.shape[-1], size, size), Kind.WEIGHT, initial)
    y = convolve_by(layers, x, weight, stride, _same_padding(x, size, stride) if is_same else [(size // 2,) * 2] * 2)
    if not has_bias:
        return y
    return y + parameter(layers, f"{name}.bias", (num_out,), Kind.BIAS, zeros).astype(y.dtype)


def convolve_by(layers: Layers, x: Array, weight: Array, stride: int, padding: Sequence[tuple[int, int]]) -> Array:
    dtype = layers.numbers.dtype
    return lax.conv_general_dilated(
        x.astype(dtype),
        weight.astype(dtype),
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "OIHW", "NHWC"),
        precision=layers.numbers.precision,
    )


def _same_padding(x: Array, size: int, stride: int) -> list[tuple[int, int]]:
    totals = [max(0, (-(-side // stride) - 1) * stride + size - side) for side in x.shape[1:3]]
    return [(total // 2, total - total // 2) for total in totals]


def linear(layers: Layers, name: str, x: Array, num_out: int, *, weight: Initial, bias: Initial) -> Array:
    dtype = layers.numbers.dtype
    matrix = parameter(layers, f"{name}.weight", (num_out, x.shape[-1]), Kind.WEIGHT, weight)
    offset = parameter(layers, f"{name}.bias", (num_out,), Kind.BIAS, bias)
    product = jnp.matmul(x.astype(dtype), matrix.T.astype(dtype), precision=layers.numbers.precision)
    return product + offset.astype(dtype)


def batch_norm(layers: Layers, name: str, x: Array) -> Array:
    """Normalised by the variance of the batch; the running variance gets the unbiased one, as in PyTorch."""
    shape = (x.shape[-1],)
    weight = parameter(layers, f"{name}.weight", shape, Kind.NORM, ones)
    bias = parameter(layers, f"{name}.bias", shape, Kind.NORM, zeros)
    mean = parameter(layers, f"{name}.running_mean", shape, Kind.STATISTIC, zeros)
    variance = parameter(layers, f"{name}.running_var", shape, Kind.STATISTIC, ones)
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    if not layers.is_training:
        return ((wide - mean) * (weight * lax.rsqrt(variance + _EPSILON)) + bias).astype(x.dtype)
    if layers.is_fast:
        y, new_mean, new_variance = normalise_fast(layers.synced_axis, x, weight, bias)
    else:
        new_mean = _mean_of_all(layers.synced_axis, wide.mean(_OVER))
        new_variance = _mean_of_all(layers.synced_axis, lax.square(wide - new_mean).mean(_OVER))
        y = ((wide - new_mean) * (weight * lax.rsqrt(new_variance + _EPSILON)) + bias).astype(x.dtype)
    count = _count(layers.synced_axis, x)
    layers.new_statistics[f"{name}.running_mean"] = _follow(mean, new_mean)
    layers.new_statistics[f"{name}.running_var"] = _follow(variance, new_variance * (count / max(count - 1, 1)))
    return y


def _mean_of_all(axis: str | None, part: Array) -> Array:
    """All devices have the same number of samples."""
    return part if axis is None else lax.pmean(part, axis)


def _count(axis: str | None, x: Array) -> int:
    return int(x.size // x.shape[-1] * (1 if axis is None else lax.axis_size(axis)))


def _follow(old: Array, new: Array) -> Array:
    return (1 - _MOMENTUM) * old + _MOMENTUM * new.astype(old.dtype)


def relu(x: Array) -> Array:
    return jax.nn.relu(x)


def dropout(layers: Layers, x: Array, share: float, keys: Array | None = None) -> Array:
    """`keys`: a number from 0 to 1 for each value, which decides instead of the generator, as in a parity check."""
    if not layers.is_training or (keys is None and layers.key is None):
        return x
    if keys is None:
        assert layers.key is not None
        keys = jax.random.uniform(layers.key, x.shape)
    return jnp.where(keys >= share, x / (1 - share), 0)


# -- BatchNorm for a GPU -----------------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def normalise_fast(axis: str | None, x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
    """Normalised x, mean and biased variance; `axis` as in `Layers.synced_axis`.

    Both moments come from one pass over the data, and the gradient reads the data twice, in the type of x. On an H200
    ResNet-50 (bf16, batch 128) gave 6,720 images/s with the derived gradient and 6,876 with this one. The difference of
    sums loses digits where a channel's mean is large against its spread; the reference reads the data twice instead.
    """
    return _normalise_forward(axis, x, weight, bias)[0]


_Kept = tuple[Array, Array, Array, Array]


def _normalise_forward(
    axis: str | None, x: Array, weight: Array, bias: Array
) -> tuple[tuple[Array, Array, Array], _Kept]:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = _mean_of_all(axis, wide.mean(_OVER))
    variance = jnp.maximum(_mean_of_all(axis, lax.square(wide).mean(_OVER)) - lax.square(mean), 0)
    rate = lax.rsqrt(variance + _EPSILON)
    factor = weight * rate
    y = (wide * factor + (bias - mean * factor)).astype(x.dtype)
    return (y, mean, variance), (x, mean, rate, weight)


def _normalise_backward(
    axis: str | None, kept: _Kept, gradients: tuple[Array, Array, Array]
) -> tuple[Array, Array, Array]:
    """Nothing trains through the statistics, so their gradients are not looked at."""
    x, mean, rate, weight = kept
    wide, gradient = (part.astype(jnp.promote_types(x.dtype, jnp.float32)) for part in (x, gradients[0]))
    of_bias = gradient.sum(_OVER)
    of_weight = ((gradient * wide).sum(_OVER) - mean * of_bias) * rate
    count = x.size // x.shape[-1]
    mean_of_bias, mean_of_weight = _mean_of_all(axis, of_bias) / count, _mean_of_all(axis, of_weight) / count
    factor = weight * rate
    slope = -factor * rate * mean_of_weight
    of_x = gradient * factor + wide * slope - (factor * mean_of_bias + mean * slope)
    return of_x.astype(x.dtype), of_weight, of_bias


normalise_fast.defvjp(_normalise_forward, _normalise_backward)
