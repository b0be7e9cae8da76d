"""Shapes and textures of generated images, as plain functions of coordinates.

A shape maps coordinates, in units of its own radius, to a number that is positive inside and falls off about linearly
at the edge, so that scaling it by the radius in pixels gives an edge of one pixel. A texture maps coordinates, in units
of its own period, to a number whose sign picks one of two colours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float32]
Shape = Callable[[Field, Field], Field]
Texture = Callable[[Field, Field, np.random.Generator], Field]

TAU = np.float32(2 * np.pi)


def _disc(x: Field, y: Field) -> Field:
    return 1 - np.sqrt(x * x + y * y)


def _triangle(x: Field, y: Field) -> Field:
    sides = np.float32(0.866) * np.abs(x) + np.float32(0.5) * y
    return np.float32(0.55) - np.maximum(sides, -y)


def _square(x: Field, y: Field) -> Field:
    return np.float32(0.82) - np.maximum(np.abs(x), np.abs(y))


def _star(x: Field, y: Field) -> Field:
    return np.maximum(_triangle(x, y), _triangle(x, -y))


def _ring(x: Field, y: Field) -> Field:
    return np.float32(0.3) - np.abs(np.sqrt(x * x + y * y) - np.float32(0.7))


def _cross(x: Field, y: Field) -> Field:
    ax, ay = np.abs(x), np.abs(y)
    arm, reach = np.float32(0.36), np.float32(0.95)
    return np.maximum(np.minimum(arm - ax, reach - ay), np.minimum(reach - ax, arm - ay))


def _crescent(x: Field, y: Field) -> Field:
    bite = np.sqrt((x - np.float32(0.55)) ** 2 + y * y) - np.float32(0.72)
    return np.minimum(_disc(x, y), bite)


def _wave(turns: Field) -> Field:
    wave: Field = np.sin(turns * TAU)
    return wave


def _from_centre(t: Field) -> Field:
    """Distance from the middle of the unit cell: 0.5 at integers. `t % 1` is several times slower."""
    cell = t - np.floor(t)
    cell -= np.float32(0.5)
    return np.abs(cell, out=cell)


def _stripes(u: Field, _v: Field, _rng: np.random.Generator) -> Field:
    return _wave(u)


def _checks(u: Field, v: Field, _rng: np.random.Generator) -> Field:
    return _wave(u * np.float32(0.8)) * _wave(v * np.float32(0.8))


def _dots(u: Field, v: Field, _rng: np.random.Generator) -> Field:
    return _wave(u) + _wave(v) - np.float32(0.75)


def _rings(u: Field, v: Field, _rng: np.random.Generator) -> Field:
    return _wave(np.sqrt(u * u + v * v))


def _spokes(u: Field, v: Field, _rng: np.random.Generator) -> Field:
    return _wave(np.arctan2(v, u) * (12 / TAU))


def _zigzag(u: Field, v: Field, _rng: np.random.Generator) -> Field:
    return _wave(v + 2 * _from_centre(u * np.float32(0.7)))


def _weave(u: Field, v: Field, _rng: np.random.Generator) -> Field:
    half = np.float32(0.5)
    lengthwise = _from_centre((np.floor(u * half) + np.floor(v * half)) * half) > np.float32(0.25)
    return _wave(np.where(lengthwise, u, v))


def _blobs(u: Field, v: Field, rng: np.random.Generator) -> Field:
    """Waves of one length from all directions with random phases: irregular spots of one size."""
    angles = (np.pi / 6 * (np.arange(6) + rng.uniform(0, 1, 6))).astype(np.float32)
    phases = rng.uniform(0, 1, 6).astype(np.float32)
    waves = (_wave(u * np.cos(a) + v * np.sin(a) + p) for a, p in zip(angles, phases, strict=True))
    total: Field = np.sum(list(waves), axis=0, dtype=np.float32)
    return total


def _bricks(u: Field, v: Field, _rng: np.random.Generator) -> Field:
    v = v * np.float32(1.4)
    shift = np.floor(v) * np.float32(0.5)  # every second row is shifted by half a brick
    mortar_across = np.float32(0.44) - _from_centre(u * np.float32(0.6) + shift)
    mortar_along = np.float32(0.36) - _from_centre(v)
    brick: Field = np.minimum(mortar_across * np.float32(6.7), mortar_along * np.float32(2.9))
    return brick


def _mosaic(u: Field, v: Field, rng: np.random.Generator) -> Field:
    """Square tiles, each randomly in one of the two colours."""
    coins = rng.integers(0, 2, (64, 64)).astype(np.float32) * 2 - 1
    rows = np.floor(v * np.float32(1.3)).astype(np.int32) & 63
    columns = np.floor(u * np.float32(1.3)).astype(np.int32) & 63
    tiles: Field = coins[rows, columns]
    return tiles


SHAPES: Mapping[str, Shape] = {
    "disc": _disc,
    "triangle": _triangle,
    "square": _square,
    "star": _star,
    "ring": _ring,
    "cross": _cross,
    "crescent": _crescent,
}

TEXTURES: Mapping[str, Texture] = {
    "stripes": _stripes,
    "checks": _checks,
    "dots": _dots,
    "rings": _rings,
    "spokes": _spokes,
    "zigzag": _zigzag,
    "weave": _weave,
    "blobs": _blobs,
    "bricks": _bricks,
    "mosaic": _mosaic,
}

# 7 shapes and 10 textures have no common divisor, so counting through both at once gives each pair once, and the first
# ten classes have ten different textures: the ten easiest to tell apart come first.
MAX_CLASSES = len(SHAPES) * len(TEXTURES)


def class_name(label: int) -> str:
    """Sorted by name, the classes are in the order of their labels."""
    shape = tuple(SHAPES)[label % len(SHAPES)]
    texture = tuple(TEXTURES)[label % len(TEXTURES)]
    return f"{label:02d}_{shape}_{texture}"
