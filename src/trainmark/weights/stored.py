"""Tensors as a file has them: name, shape and type at once, values only when they are wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.weights.neutral import WeightsError

Array = NDArray[np.float32]

_FLOATS = {"float16": "<f2", "bfloat16": "<u2", "float32": "<f4", "float64": "<f8"}
MAX_ELEMENTS = 2**31
"""Of one tensor: the largest of our models has 12.8 million."""


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    shape: tuple[int, ...]
    dtype: str
    """Its name in numpy, or bfloat16."""
    read: Callable[[], Array]
    """The values in float32."""


@dataclass(frozen=True, kw_only=True)
class StoredWeights:
    """What a file holds, before anything is known about the network it belongs to."""

    kind: str
    """`safetensors`, `PyTorch`, `PyTorch (before 1.6)`, `Paddle`, `checkpoint of paddle` or `checkpoint of jax`."""
    tensors: Mapping[str, StoredTensor]
    is_paddle: bool = False
    """Linear layers are (in, out), and BatchNorm has `_mean` and `_variance`."""
    is_own: bool = False
    """Written by trainmark: the names and values are those of our own model."""
    about: Mapping[str, str] = field(default_factory=dict)


def number_of(shape: tuple[int, ...]) -> int:
    """Of elements; an error for what no array can be."""
    if not all(isinstance(side, int) and side >= 0 for side in shape) or len(shape) > 8:
        raise WeightsError("invalid shape", why=f"a tensor is said to be {describe(shape)}")
    number = math.prod(shape)
    if number > MAX_ELEMENTS:
        raise WeightsError("a tensor is too large", why=f"{describe(shape)} has over {MAX_ELEMENTS:,} elements")
    return number


def to_float32(raw: Any, dtype: str, *, is_big_endian: bool = False) -> Array:
    """From the bytes of any of the four types of floating-point numbers."""
    if dtype not in _FLOATS:
        raise WeightsError("wrong type", why=f"a tensor has values of type {dtype}, expected floating point")
    if len(raw) % np.dtype(_FLOATS[dtype]).itemsize:
        raise WeightsError("damaged", why=f"{len(raw)} bytes for values of type {dtype}")
    stored = np.frombuffer(raw, dtype=np.dtype(_FLOATS[dtype]).newbyteorder(">" if is_big_endian else "<"))
    if dtype == "bfloat16":
        wide: Array = (stored.astype(np.uint32) << 16).view(np.float32)
        return wide
    with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite, which is refused later
        return stored.astype(np.float32)


def describe(shape: tuple[Any, ...]) -> str:
    return "x".join(str(side)[:20] for side in shape) or "a number"
