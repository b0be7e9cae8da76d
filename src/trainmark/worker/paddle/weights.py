"""Neutral weights into and out of a model of Paddle: PyTorch's names, and linear layers as (out, in)."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn

from trainmark.weights.neutral import Weights, require_tensors

_STATISTICS = {"_mean": "running_mean", "_variance": "running_var"}
"""Of a BatchNorm, which Paddle names differently."""


def export_weights(model: nn.Layer) -> dict[str, NDArray[Any]]:
    """Copies on the host."""
    linear = _linear_weights(model)
    return {name: to_neutral(tensor, name in linear) for name, tensor in neutral_tensors(model).items()}


@paddle.no_grad()
def import_weights(model: nn.Layer, weights: Weights) -> None:
    """Into the tensors that are there, in their type."""
    tensors, linear = neutral_tensors(model), _linear_weights(model)
    shapes = {name: tuple(reversed(t.shape) if name in linear else t.shape) for name, t in tensors.items()}
    require_tensors(weights, shapes)
    for name, tensor in tensors.items():
        array = weights[name].T if name in linear else weights[name]
        tensor.set_value(np.ascontiguousarray(array, dtype=tensor.numpy().dtype))


def neutral_tensors(model: nn.Layer) -> dict[str, Tensor]:
    """Parameters and statistics by their neutral name, in Paddle's own layout."""
    found = {}
    for name, tensor in model.state_dict().items():
        layer, _, last = name.rpartition(".")
        found[f"{layer}.{_STATISTICS[last]}" if last in _STATISTICS else name] = tensor
    return found


def export_gradients(model: nn.Layer, scale: float) -> dict[str, NDArray[Any]]:
    """Of all trained weights, divided by the scale of the loss."""
    linear = _linear_weights(model)
    trained = {name: p for name, p in model.named_parameters() if not p.stop_gradient and p.grad is not None}
    return {name: to_neutral(parameter.grad, name in linear) / scale for name, parameter in trained.items()}


def to_neutral(tensor: Tensor, is_linear: bool) -> NDArray[Any]:
    wide = tensor.astype(paddle.float32) if tensor.dtype in (paddle.float16, paddle.bfloat16) else tensor
    array: NDArray[Any] = wide.numpy()
    return np.array(array.T if is_linear else array, order="C")


def _linear_weights(model: nn.Layer) -> set[str]:
    layers = model.named_sublayers(include_self=True)
    return {f"{name}.weight".lstrip(".") for name, layer in layers if isinstance(layer, nn.Linear)}
