"""How the files of others name the layers of a workload, and which tensors the workload has. No framework.

`workloads/<id>/weights.py` has `tensor_shapes(num_classes)`, which lists the tensors of the PyTorch reference model,
`CLASS_LAYERS`, those whose shape depends on the number of classes, and `LAYOUTS`. `trainmark.weights` uses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float32]]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a layout's `finish` may depend on."""

    recipe: str
    """Of the run that starts from these weights."""
    is_own: bool
    """Written by trainmark."""
    seed: int


def keep(arrays: Arrays, _: Origin) -> Arrays:
    return arrays


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One public naming of the layers."""

    name: str
    rename: Callable[[str], str | None]
    """From the file's name of a tensor to ours; None for one that has no place in our model, such as a classifier."""
    covers: Callable[[str], bool] = lambda _: True
    """Whether a file of this layout must have the tensor of that name of ours."""
    differing: frozenset[str] = frozenset()
    """Tensors of ours that have another shape in these files; they stay as they are."""
    helpers: frozenset[str] = frozenset()
    """Tensors that only `finish` needs."""
    finish: Callable[[Arrays, Origin], Arrays] = keep
    """What has to be computed from the values, such as another order of colours."""


Rules = Sequence[tuple[str, str | Callable[[Any], str]]]
"""Regular expressions, each with what replaces it."""


def rewrite(name: str, rules: Rules) -> str:
    """By the first regular expression that matches the beginning; unchanged if none does."""
    for pattern, new in rules:
        found, count = re.subn(rf"^{pattern}", new, name, count=1)
        if count:
            return found
    return name


def starts_with(*prefixes: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefixes)


# -- shapes ------------------------------------------------------------------------------------------------------------


def convolution(name: str, inputs: int, outputs: int, size: int, *, bias: bool = False) -> Shapes:
    weight: Shapes = {f"{name}.weight": (outputs, inputs, size, size)}
    return weight | ({f"{name}.bias": (outputs,)} if bias else {})


def linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def batch_norm(name: str, width: int) -> Shapes:
    return {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}


def together(parts: Iterable[Mapping[str, tuple[int, ...]]]) -> Shapes:
    return {name: shape for part in parts for name, shape in part.items()}


def pair(name: str, inputs: int, outputs: int, size: int) -> Shapes:
    """A convolution and its norm as the first two items of a sequence."""
    return convolution(f"{name}.0", inputs, outputs, size) | batch_norm(f"{name}.1", outputs)
