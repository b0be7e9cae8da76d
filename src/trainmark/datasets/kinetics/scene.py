"""Draws one clip from (seed, split, index) and the order of its events. Pure; writes nothing.

A clip shows four events one after another, each a grid of one shape in one colour that moves over a fixed background.
The frames of an event do not depend on its position in the clip: clips of all classes have the same frames, in another
order. So neither a frame nor an unordered set of frames tells the class, and a model that averages over frames cannot
do better than chance. Every event lasts a quarter of the clip, so eight or four equal segments contain each event
equally often, whichever frame of a segment is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from trainmark.datasets.patterns import SHAPES, Field

Pixels = npt.NDArray[np.uint8]

EVENTS = ("disc", "square", "star", "cross")
_COLOURS = ((225, 60, 50), (60, 200, 70), (60, 90, 225), (225, 200, 50))
ORDERS = tuple(permutations(range(len(EVENTS))))
MAX_CLASSES = len(ORDERS)
_STRIDE = 7  # no common divisor with 24: even the first few classes differ in their first and last event

_SPACING = (0.38, 0.5)  # between shapes, relative to the height: the smallest crop still contains a whole shape
_RADIUS = (0.36, 0.44)  # of a shape, relative to the spacing
_SPEED = (0.06, 0.14)  # per frame, relative to the spacing
_GRAIN = 4.0  # standard deviation in grey levels


def order_of(label: int) -> tuple[int, ...]:
    return ORDERS[label * _STRIDE % MAX_CLASSES]


def class_name(label: int) -> str:
    return f"{label:02d}_" + "_".join(EVENTS[event] for event in order_of(label))


def draw_clip(
    *, order: Sequence[int], seed: int, split: int, index: int, num_frames: int, size: tuple[int, int]
) -> list[Pixels]:
    """`num_frames` is a multiple of the number of events; `size` is (height, width)."""
    length = num_frames // len(EVENTS)
    background = _background(np.random.default_rng([seed, split, index, 0]), size)
    return [
        frame for event in order for frame in _draw_event(background, event, [seed, split, index, 1 + event], length)
    ]


def _background(rng: np.random.Generator, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """A long grey wave, the same in every frame of the clip."""
    height, width = size
    y = np.linspace(0, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(0, 1, width, dtype=np.float32)[None, :]
    turns = rng.uniform(-1.5, 1.5, 2).astype(np.float32)
    wave = np.sin(np.float32(2 * math.pi) * (turns[0] * x + turns[1] * y + np.float32(rng.uniform())))
    level, depth = np.float32(rng.uniform(70, 150)), np.float32(rng.uniform(10, 40))
    picture: npt.NDArray[np.float32] = (level + depth * wave)[:, :, None]
    return picture


def _draw_event(background: npt.NDArray[np.float32], event: int, key: list[int], length: int) -> list[Pixels]:
    rng = np.random.default_rng(key)
    height, width = background.shape[:2]
    spacing = rng.uniform(*_SPACING) * height
    radius = rng.uniform(*_RADIUS) * spacing
    angle, heading = rng.uniform(0, 2 * math.pi, 2)
    start, speed = rng.uniform(0, spacing, 2), rng.uniform(*_SPEED) * spacing
    step = speed * np.array([math.sin(heading), math.cos(heading)])
    colour = (np.array(_COLOURS[event]) + rng.uniform(-25, 25, 3)).astype(np.float32)
    frames = []
    for number in range(length):
        at = start + number * step
        dy = _in_cell(np.arange(height, dtype=np.float32)[:, None] - np.float32(at[0]), spacing)
        dx = _in_cell(np.arange(width, dtype=np.float32)[None, :] - np.float32(at[1]), spacing)
        cos, sin = np.float32(math.cos(angle) / radius), np.float32(math.sin(angle) / radius)
        inside = SHAPES[EVENTS[event]](cos * dx + sin * dy, cos * dy - sin * dx)
        cover = np.clip(inside * np.float32(radius) + np.float32(0.5), 0, 1)[:, :, None]
        picture = background + cover * (colour - background)
        picture += np.float32(_GRAIN) * rng.standard_normal((height, width, 1), dtype=np.float32)
        frames.append(np.clip(picture, 0, 255, out=picture).astype(np.uint8))
    return frames


def _in_cell(distance: Field, spacing: float) -> Field:
    """Distance from the nearest shape of the infinite grid."""
    turns = distance / np.float32(spacing)
    turns -= np.floor(turns + np.float32(0.5))
    return turns * np.float32(spacing)
