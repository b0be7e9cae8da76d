"""Neutral weights into and out of a model of PyTorch, whose names and layouts they have."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainmark.weights.neutral import Weights, require_tensors

_COUNTER = "num_batches_tracked"


def export_weights(model: nn.Module) -> dict[str, NDArray[Any]]:
    """Copies on the host."""
    return {name: tensor.detach().cpu().contiguous().clone().numpy() for name, tensor in _tensors(model).items()}


@torch.no_grad()
def import_weights(model: nn.Module, weights: Weights) -> None:
    """Into the tensors that are there: a captured graph and an optimizer use these and no others."""
    tensors = _tensors(model)
    require_tensors(weights, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    for name, tensor in tensors.items():
        tensor.copy_(torch.tensor(weights[name]))


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    state: dict[str, Tensor] = model.state_dict()
    return {name: tensor for name, tensor in state.items() if name.rpartition(".")[2] != _COUNTER}
