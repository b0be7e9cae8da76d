"""A card's optimizer in JAX: optax's parts where they are exactly PyTorch's formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from trainmark.workloads.card import AdamW, Optimizer, Sgd
from trainmark.workloads.jax import ParameterGroup

Weights = Mapping[str, Array]

_CLIP_EPSILON = 1e-6
"""PyTorch adds it to the norm; optax does not."""


def build_optimizer(facts: Optimizer, groups: Sequence[ParameterGroup]) -> optax.GradientTransformation:
    """Gradients to updates that are still to be multiplied by the negative learning rate."""
    decays = [_decay(group, groups) for group in groups if group.weight_decay]
    if isinstance(facts, Sgd):  # the decay is part of the gradient, and so of the momentum
        return optax.chain(*decays, optax.trace(decay=facts.momentum, nesterov=False))
    if isinstance(facts, AdamW):
        first, second = facts.betas
        return optax.chain(optax.scale_by_adam(b1=first, b2=second, eps=facts.epsilon), *decays)
    raise TypeError(f"no optimizer of JAX for {type(facts).__name__}")


def _decay(group: ParameterGroup, groups: Sequence[ParameterGroup]) -> optax.GradientTransformation:
    own = set(group.names)
    return optax.add_decayed_weights(group.weight_decay, {name: name in own for each in groups for name in each.names})


def rates_of(groups: Sequence[ParameterGroup]) -> dict[str, float]:
    """The learning rate of each parameter, relative to the schedule's."""
    return {name: group.lr_scale for group in groups for name in group.names}


def clip_by_norm(gradients: Weights, limit: float) -> dict[str, Array]:
    """As PyTorch's clip_grad_norm_."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(part)) for part in gradients.values()))
    factor = jnp.minimum(1.0, limit / (norm + _CLIP_EPSILON))
    return {name: part * factor for name, part in gradients.items()}


def names_of_state(state: Any) -> list[str]:
    """A name for each array of the optimizer's state, in the order of `jax.tree.leaves`."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(state)]
