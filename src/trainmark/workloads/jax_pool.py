"""Max-pool 3x3, stride 2, padding 1, with a gradient that gathers; the first of equal values wins, as in PyTorch.

The gradient of XLA's window maximum visits every window of every pixel. Here the forward pass keeps which of the nine
pixels won, and each pixel asks the one, two or four windows around it whether it did.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

_SIDE = 3


def max_pool(x: Array) -> Array:
    if x.shape[1] % 2 or x.shape[2] % 2:
        return _winner(x)[0]
    return _pool_even(x)


def _winner(x: Array) -> tuple[Array, Array]:
    """The largest value of each window, and its number within the window, row by row."""
    height, width = (-(-side // 2) for side in x.shape[1:3])
    pads = [(0, 0, 0), *((1, 2 * out - side, 0) for out, side in zip((height, width), x.shape[1:3], strict=True))]
    padded = lax.pad(x, jnp.array(-jnp.inf, x.dtype), [*pads, (0, 0, 0)])
    best = number = None
    for row in range(_SIDE):
        for column in range(_SIDE):
            limits = (x.shape[0], row + 2 * height - 1, column + 2 * width - 1, x.shape[3])
            part = lax.slice(padded, (0, row, column, 0), limits, (1, 2, 2, 1))
            if best is None or number is None:
                best, number = part, jnp.zeros(part.shape, jnp.uint8)
            else:
                is_larger = part > best
                best = jnp.where(is_larger, part, best)
                number = jnp.where(is_larger, jnp.uint8(_SIDE * row + column), number)
    assert best is not None
    assert number is not None
    return best, number


@jax.custom_vjp
def _pool_even(x: Array) -> Array:
    return _winner(x)[0]


def _backward(number: Array, gradient: Array) -> tuple[Array]:
    """An even row lies in the middle of one window, an odd row at the end of one and at the start of the next."""

    def share(row: int, column: int) -> Array:
        """What the pixel at this place of each window gets; places 0 are asked in the next window."""
        won = jnp.where(number == _SIDE * row + column, gradient, 0)
        pads = [(0, 0, 0), *((-1, 1, 0) if place == 0 else (0, 0, 0) for place in (row, column)), (0, 0, 0)]
        return lax.pad(won, jnp.zeros((), won.dtype), pads)

    rows = []
    for places in ((1,), (2, 0)):
        even = sum((share(row, 1) for row in places[1:]), start=share(places[0], 1))
        odd = sum((share(row, column) for row in places for column in (2, 0)), start=jnp.zeros_like(even))
        rows.append(jnp.stack([even, odd], axis=3))
    n, height, width, channels = gradient.shape
    return (jnp.stack(rows, axis=2).reshape(n, 2 * height, 2 * width, channels),)


_pool_even.defvjp(_winner, _backward)
