"""What all frameworks of a parity check are given: weights, batches and learning rates. Seeded, without a framework."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.weights.neutral import Weights
from trainmark.workloads.card import Card
from trainmark.workloads.data import Arrays
from trainmark.workloads.registry import load_module
from trainmark.workloads.schedules import peak_learning_rate

_BRANCH_END = re.compile(r"(\.bn\d|\.body\.\d+\.1)\.weight$")
"""Scales inside residual branches, in the names of ResNet and of our HRNet."""
_MASK_HEAD = re.compile(r"\.mask_(head\.\d+\.0|predictor\.conv5_mask)\.(weight|bias)$")
"""Layers of Mask R-CNN that ReLU follows without a norm, with two thirds of all activations."""
_WEAK = 0.1
_SPREAD = 0.1
_SHIFT = 2.25
"""Of a norm's scale: few of its results are near zero."""
_BIAS = 1.0
"""Of a layer with weak weights and no norm."""
_UNEQUAL_RATES = (0.5, 1.0, 0.25)
"""Of the recipe's peak: a rate that is applied one step late is seen at once."""


def settle_weights(weights: Weights, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Fresh weights hide faults and magnify rounding; this changes both.

    A bias of 0 is not seen to decay, a scale of 1 is not seen to be left out: all vectors get some noise, relative for
    what must stay positive. What goes into ReLU is moved away from zero, to either side: rounding decides whether it
    passes what is next to zero, and with it whole gradients. And the residual branches of an untrained network are
    so strong that the gradients of float32 are wrong by 2%; weaker ones, as in a network that has been trained for a
    while, leave a tenth of that.
    """
    settled: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        noise = _SPREAD * rng.standard_normal(array.shape).astype(array.dtype)
        if array.ndim != 1:
            settled[name] = array * (_WEAK if _MASK_HEAD.search(name) else 1)
        elif name.endswith(("weight", "running_var")):
            settled[name] = array * np.exp(noise) * (_WEAK if _BRANCH_END.search(name) else 1)
        else:
            settled[name] = array + noise
    for name in weights:
        layer, _, kind = name.rpartition(".")
        if kind == "bias" and f"{layer}.running_mean" in weights:
            settled[name] = settled[name] + np.copysign(_SHIFT * settled[f"{layer}.weight"], settled[name])
        elif kind == "bias" and _MASK_HEAD.search(name):
            settled[name] = settled[name] + np.copysign(_BIAS, settled[name])
    return {name: array.astype(weights[name].dtype) for name, array in settled.items()}


def nudge_weights(weights: Weights, seed: int) -> dict[str, NDArray[Any]]:
    """Each number moves by up to two units in its last digit: as much as rounding moves what is computed from it."""
    rng = np.random.default_rng([seed, 2])
    return {
        name: (array + rng.integers(-2, 3, array.shape) * np.spacing(array)).astype(array.dtype)
        for name, array in weights.items()
    }


def make_batches(card: Card, *, size: str, batch_size: int, num_batches: int, seed: int) -> list[Arrays]:
    make = load_module(card.name, "synthetic").make_batch
    return [
        make(
            np.random.default_rng([seed, number]),
            batch_size=batch_size,
            size=card.sizes[size],
            num_classes=card.num_classes,
            fixes_choices=True,
        )
        for number in range(num_batches)
    ]


def shuffled_orders(*, batch_size: int, num_steps: int, seed: int) -> tuple[tuple[int, ...], ...]:
    """An order of the samples for each step; seed 0 leaves them as they are."""
    rng = np.random.default_rng([seed, 1])
    in_order = tuple(range(batch_size))
    return tuple(in_order if seed == 0 else tuple(rng.permutation(batch_size).tolist()) for _ in range(num_steps))


def unequal_rates(card: Card, *, batch_size: int) -> tuple[float, ...]:
    peak = peak_learning_rate(card.schedule, global_batch=batch_size)
    return tuple(peak * share for share in _UNEQUAL_RATES)


def steady_rates(card: Card, *, batch_size: int, num_steps: int) -> tuple[float, ...]:
    """Half of the recipe's peak: a training that learns, for as many steps as wanted."""
    return (peak_learning_rate(card.schedule, global_batch=batch_size) / 2,) * num_steps
