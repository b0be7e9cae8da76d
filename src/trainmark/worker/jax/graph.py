"""What a traced function computes, read from the graph that JAX gives to the compiler: FLOPs, and products in TF32."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Jaxpr, Literal

from trainmark.workloads.jax_resize import mix_by_matrix

_CONVOLUTION, _PRODUCT = "conv_general_dilated", "dot_general"
_CALLS = ("jit", "pjit")
"""Names in newer and older versions of JAX."""
_MOVES = ("reshape", "transpose", "convert_element_type")
"""Results have the values of the first argument."""


def count_flops(graph: Jaxpr) -> int:
    """Of convolutions and matrix products, a multiply-add counted as two.

    Left out are resizing, however it is done, and the zeros that a kernel is padded with, which multiply nothing.
    """
    return _count(graph, [_size(value) for value in graph.invars])[0]


def _count(graph: Jaxpr, given: Sequence[int]) -> tuple[int, list[int]]:
    """FLOPs, and how many values of each result may differ from zero; `given` says that of the arguments."""
    filled = dict(zip(graph.invars, given, strict=True))

    def num_filled(value: Any) -> int:
        return int(np.count_nonzero(value.val)) if isinstance(value, Literal) else filled.get(value, _size(value))

    total = 0
    for equation in graph.eqns:
        numbers = [num_filled(value) for value in equation.invars]
        if equation.primitive.name not in _CALLS:
            total += _flops_of(equation, numbers) + sum(count_flops(inner) for inner in _inner_of(equation))
            filled[equation.outvars[0]] = _num_filled_in_result(equation, numbers)
        elif equation.params["name"] != mix_by_matrix.__name__:
            flops, made = _count(equation.params["jaxpr"].jaxpr, numbers)
            total += flops
            filled.update(zip(equation.outvars, made, strict=True))
    return total, [num_filled(value) for value in graph.outvars]


def _flops_of(equation: Any, numbers: Sequence[int]) -> int:
    """`numbers`: how many values of each argument may differ from zero."""
    num_results = _size(equation.outvars[0])
    if equation.primitive.name == _CONVOLUTION:
        kernel, outputs = equation.invars[1].aval.shape, equation.params["dimension_numbers"].rhs_spec[0]
        return 2 * num_results // int(kernel[outputs]) * numbers[1]
    if equation.primitive.name == _PRODUCT:
        (contracted, _), _ = equation.params["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        return 2 * num_results * math.prod(int(shape[axis]) for axis in contracted)
    return 0


def _num_filled_in_result(equation: Any, numbers: Sequence[int]) -> int:
    size = _size(equation.outvars[0])
    if equation.primitive.name in _MOVES:
        return numbers[0]
    if equation.primitive.name == "pad":
        num_added = max(0, size - _size(equation.invars[0]))
        return min(size, numbers[0] + num_added * numbers[1])
    return size


def _size(value: Any) -> int:
    return math.prod(value.aval.shape)


def may_use_tf32(graph: Jaxpr) -> bool:
    """Whether it leaves the precision of a product of float32 to the device, which may be TF32."""
    return any(
        _is_rounded(equation) or any(may_use_tf32(inner) for inner in _inner_of(equation)) for equation in graph.eqns
    )


def _is_rounded(equation: Any) -> bool:
    if equation.primitive.name not in (_CONVOLUTION, _PRODUCT):
        return False
    precision = equation.params["precision"]
    is_highest = precision in (lax.Precision.HIGHEST, (lax.Precision.HIGHEST, lax.Precision.HIGHEST))
    return not is_highest and any(value.aval.dtype == jnp.float32 for value in equation.invars)


def _inner_of(equation: Any) -> Iterator[Jaxpr]:
    """Functions that it calls."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple) else (value,):
            if hasattr(part, "jaxpr"):
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part
