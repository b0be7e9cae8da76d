"""A model's weights without a framework: arrays under the names and in the layouts of the PyTorch reference model.

BatchNorm has `weight`, `bias`, `running_mean` and `running_var`. The counter `num_batches_tracked` is left out: only
PyTorch has it, and no step depends on it.

On disk this is a safetensors file: names, types and shapes first, with metadata that say what the weights belong to
and how their dimensions are ordered; `reading.read_file` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.errors import InputError

Weights = Mapping[str, NDArray[Any]]

FORMAT = "weights 1"
_FORMAT_KEY = "trainmark"
_LAYOUTS = "convolution OIHW, transposed convolution IOHW, linear OI"
"""For readers of others: O out, I in, H height, W width. Ours need no more than the format's version."""
_NAMED = 5
"""Tensors that an error names; the rest is counted."""


class WeightsError(InputError):
    """The tensors are not those of the model, or the file cannot be read."""


def require_tensors(weights: Weights, shapes: Mapping[str, Sequence[int]]) -> None:
    """Every tensor of the model and no other, each in its shape; else an error with the names."""
    missing = [name for name in shapes if name not in weights]
    extra = [name for name in weights if name not in shapes]
    misshapen = [
        f"{name} is {_shape(weights[name].shape)} instead of {_shape(shape)}"
        for name, shape in shapes.items()
        if name in weights and tuple(weights[name].shape) != tuple(shape)
    ]
    problems = [("missing", missing), ("not in the model", extra), ("wrong shape", misshapen)]
    found = [f"{what}: {_enumerate(names)}" for what, names in problems if names]
    if found:
        raise WeightsError("the weights do not fit the model", why="; ".join(found))


def pack_weights(weights: Weights, about: Mapping[str, str]) -> bytes:
    """The content of a file. `about` says what they belong to: workload, recipe, card version, framework of origin."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    packed: bytes = save(contiguous, metadata={_FORMAT_KEY: FORMAT, "layouts": _LAYOUTS, **about})
    return packed


def _shape(shape: Sequence[int]) -> str:
    return "x".join(str(side) for side in shape) or "a number"


def _enumerate(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
