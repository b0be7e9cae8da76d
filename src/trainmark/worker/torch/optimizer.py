"""A card's optimizer in PyTorch, and its state in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainmark.workloads.card import AdamW, Optimizer, Sgd

State = Sequence[Mapping[str, Tensor]]
"""Tensors by name for each parameter, in the order of the groups."""


def build_optimizer(facts: Optimizer, groups: list[dict[str, Any]], *, is_fused: bool) -> torch.optim.Optimizer:
    """The groups have `params`, `weight_decay` and `lr`."""
    fused = True if is_fused else None
    if isinstance(facts, Sgd):
        return torch.optim.SGD(groups, lr=0.0, momentum=facts.momentum, fused=fused)
    if isinstance(facts, AdamW):
        return torch.optim.AdamW(groups, lr=0.0, betas=facts.betas, eps=facts.epsilon, fused=fused)
    raise TypeError(f"no optimizer of PyTorch for {type(facts).__name__}")


def fill_state(optimizer: torch.optim.Optimizer, facts: Optimizer, *, is_fused: bool) -> None:
    """Make the buffers that the first step would make; the first step is the same with them.

    A first step whose fp16 gradients overflow is skipped and would leave a fused optimizer's buffers unset, and a
    captured graph needs buffers that stay where they are.
    """
    for parameter in parameters_of(optimizer):
        if optimizer.state[parameter]:
            continue
        if isinstance(facts, Sgd):
            optimizer.state[parameter] = {"momentum_buffer": torch.zeros_like(parameter)}
        else:
            step = torch.zeros((), dtype=torch.float32, device=parameter.device if is_fused else "cpu")
            means = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[parameter] = {"step": step, **means}


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def read_state(optimizer: torch.optim.Optimizer) -> State:
    states = (optimizer.state[parameter] for parameter in parameters_of(optimizer))
    return [{name: value for name, value in state.items() if isinstance(value, Tensor)} for state in states]


def load_state(optimizer: torch.optim.Optimizer, facts: Optimizer, saved: State, *, is_fused: bool) -> None:
    """Into the tensors that are there: a captured graph uses these and no others."""
    if any(saved):
        fill_state(optimizer, facts, is_fused=is_fused)
    for parameter, tensors in zip(parameters_of(optimizer), saved, strict=True):
        for name, value in tensors.items():
            optimizer.state[parameter][name].copy_(value)
