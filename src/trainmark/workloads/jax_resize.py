"""Bilinear resizing of NHWC pictures, corners not aligned, as PyTorch's `interpolate` does it.

On a GPU and by a whole factor each output pixel is a mix of a pixel and its neighbours with weights that repeat, so
that both directions are sums of shifted pictures, which XLA fuses. Other sizes are two products with small matrices,
and so is everything on a CPU, where those fused sums take XLA twice as long to compile. Neither way has a gradient
that scatters.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from trainmark.workloads.linear_resize import linear_weights


def resize(x: Array, size: Sequence[int]) -> Array:
    """To height and width `size`; computed in at least float32, as the dtype of `x`."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    for axis, num_out in zip((1, 2), size, strict=True):
        wide = _along(wide, axis, num_out)
    return wide.astype(x.dtype)


def _along(x: Array, axis: int, num_out: int) -> Array:
    num_in = x.shape[axis]
    if num_in == num_out:
        return x
    if num_out % num_in == 0 and jax.default_backend() != "cpu":
        return _enlarge(x, axis, num_out // num_in)
    mixed: Array = _mix_by_matrix(x, jnp.asarray(linear_weights(num_in, num_out), x.dtype), axis)
    return mixed


def mix_by_matrix(x: Array, matrix: Array, axis: int) -> Array:
    """Under a name of its own: who counts the work of a network leaves out resizing, however it is done."""
    mixed = jnp.tensordot(matrix, x, axes=(1, axis), precision=lax.Precision.HIGHEST)
    return jnp.moveaxis(mixed, 0, axis)


_mix_by_matrix = jax.jit(mix_by_matrix, static_argnums=2)


def _enlarge(x: Array, axis: int, factor: int) -> Array:
    """Output pixel `factor * i + p` lies between the pixels i - 1 and i, or i and i + 1; the border repeats."""
    before, after = _neighbours(x, axis)
    offsets = (np.arange(factor) + 0.5) / factor - 0.5
    phases = [
        _mix(x, before, -offset) if offset < 0 else _mix(x, after, offset) if offset > 0 else x for offset in offsets
    ]
    shape = (*x.shape[:axis], factor * x.shape[axis], *x.shape[axis + 1 :])
    return jnp.stack(phases, axis=axis + 1).reshape(shape)


def _neighbours(x: Array, axis: int) -> tuple[Array, Array]:
    last = x.shape[axis] - 1
    first_row, last_row = (lax.slice_in_dim(x, at, at + 1, axis=axis) for at in (0, last))
    before = jnp.concatenate([first_row, lax.slice_in_dim(x, 0, last, axis=axis)], axis)
    after = jnp.concatenate([lax.slice_in_dim(x, 1, last + 1, axis=axis), last_row], axis)
    return before, after


def _mix(x: Array, neighbour: Array, share: float) -> Array:
    return (1 - share) * x + share * neighbour
