"""Draws one image from (seed, split, index), with an exact mask for every object. Pure; writes nothing.

A class has a shape, a texture and a hue. Objects may cover each other a little; masks contain the visible part. Some
images have only background, and some a crowd: many small objects of one class, labelled as one region.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainmark.datasets.patterns import SHAPES, TEXTURES, Field

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_EMPTY_SHARE, _CROWD_SHARE = 0.04, 0.06
_MAX_OBJECTS = 4
_RADIUS = (0.13, 0.30)  # relative to the shorter side: 60 to 150 pixels of 480
_CROWD_RADIUS = 0.05
_CROWD_OBJECTS = (8, 14)
_PERIOD = (0.30, 0.45)  # relative to the radius: visible after scaling down
_TRIES = 12
_MIN_SEEN = 0.75  # of an object that must stay visible
_GRAIN = 6.0
_SCALE, _STRETCH = (0.85, 1.15), (0.92, 1.08)


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneObject:
    label: int
    mask: Mask
    """The visible part."""
    is_crowd: bool


def draw_scene(
    *, seed: int, split: int, index: int, num_classes: int, mean_size: tuple[int, int]
) -> tuple[Pixels, list[SceneObject]]:
    rng = np.random.default_rng([seed, split, index])
    height, width = _random_size(rng, mean_size)
    canvas = _clouds(rng, height, width)
    objects: list[SceneObject] = []
    kind = rng.random()
    if kind >= _EMPTY_SHARE:
        if kind < _EMPTY_SHARE + _CROWD_SHARE:
            objects.append(_paint_crowd(canvas, rng, int(rng.integers(num_classes))))
        for _ in range(rng.integers(1, _MAX_OBJECTS + 1)):
            _place_object(canvas, rng, objects, int(rng.integers(num_classes)))
    noisy = canvas + np.float32(_GRAIN) * rng.standard_normal((height, width, 1), dtype=np.float32)
    return np.clip(noisy, 0, 255).astype(np.uint8), objects


def _random_size(rng: np.random.Generator, mean_size: tuple[int, int]) -> tuple[int, int]:
    """Random size around the mean area; a quarter of the images have height and width swapped."""
    scale, stretch = rng.uniform(*_SCALE), rng.uniform(*_STRETCH)
    height, width = round(mean_size[0] * scale / stretch), round(mean_size[1] * scale * stretch)
    return (width, height) if rng.random() < 0.25 else (height, width)


def _clouds(rng: np.random.Generator, height: int, width: int) -> Field:
    import cv2

    base = rng.uniform(90, 165, 3)
    coarse = (base + rng.uniform(-35, 35, (4, 5, 3))).astype(np.float32)
    clouds = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(clouds, dtype=np.float32)


def _place_object(canvas: Field, rng: np.random.Generator, objects: list[SceneObject], label: int) -> None:
    """Draws on top, at a place that leaves enough of every object visible; draws nothing if no try finds one."""
    height, width = canvas.shape[:2]
    for _ in range(_TRIES):
        radius = rng.uniform(*_RADIUS) * min(height, width)
        centre = (rng.uniform(0.5 * radius, height - 0.5 * radius), rng.uniform(0.5 * radius, width - 0.5 * radius))
        cover = _cover(rng, label, canvas.shape[:2], centre, radius)
        mask = cover >= 0.5
        seen = [other.mask & ~mask for other in objects]
        if mask.sum() < 0.5 * radius**2 or not all(_is_enough(*pair) for pair in zip(seen, objects, strict=True)):
            continue
        objects[:] = [
            SceneObject(label=other.label, mask=rest, is_crowd=other.is_crowd)
            for rest, other in zip(seen, objects, strict=True)
        ]
        objects.append(SceneObject(label=label, mask=mask, is_crowd=False))
        _blend(canvas, rng, label, centre, radius, cover)
        return


def _is_enough(rest: Mask, other: SceneObject) -> bool:
    return bool(rest.sum() >= _MIN_SEEN * other.mask.sum())


def _paint_crowd(canvas: Field, rng: np.random.Generator, label: int) -> SceneObject:
    height, width = canvas.shape[:2]
    shorter = min(height, width)
    centre = (rng.uniform(0.3, 0.7) * height, rng.uniform(0.3, 0.7) * width)
    mask = np.zeros((height, width), dtype=bool)
    for _ in range(rng.integers(*_CROWD_OBJECTS)):
        place = (centre[0] + rng.normal() * 0.1 * shorter, centre[1] + rng.normal() * 0.1 * shorter)
        cover = _cover(rng, label, (height, width), place, _CROWD_RADIUS * shorter)
        _blend(canvas, rng, label, place, _CROWD_RADIUS * shorter, cover)
        mask |= cover >= 0.5
    return SceneObject(label=label, mask=mask, is_crowd=True)


def _cover(
    rng: np.random.Generator, label: int, size: tuple[int, ...], centre: tuple[float, float], radius: float
) -> Field:
    """Coverage of each pixel by the shape, with an edge of one pixel."""
    shape = tuple(SHAPES.values())[label % len(SHAPES)]
    x, y = _turned(size, centre, angle=rng.uniform(0, 2 * np.pi), unit=radius)
    levels = shape(x, y) * np.float32(radius) + np.float32(0.5)
    return np.clip(levels, 0, 1, out=levels)


def _blend(
    canvas: Field, rng: np.random.Generator, label: int, centre: tuple[float, float], radius: float, cover: Field
) -> None:
    """Draws only in the rectangle that the shape covers."""
    rows, columns = (np.flatnonzero(cover.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return
    window = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    texture = tuple(TEXTURES.values())[label % len(TEXTURES)]
    at = (centre[0] - rows[0], centre[1] - columns[0])
    part = cover[window]
    period = rng.uniform(*_PERIOD) * radius
    u, v = _turned(part.shape, at, angle=rng.uniform(0, 2 * np.pi), unit=period)
    ink = np.clip(texture(u, v, rng) * np.float32(4) + np.float32(0.5), 0, 1)[:, :, None]
    dark, light = _two_tones(rng, label)
    colours = dark + (light - dark) * ink
    canvas[window] += (colours - canvas[window]) * part[:, :, None]


def _turned(size: tuple[int, ...], centre: tuple[float, float], *, angle: float, unit: float) -> tuple[Field, Field]:
    dy = np.arange(size[0], dtype=np.float32)[:, None] - np.float32(centre[0])
    dx = np.arange(size[1], dtype=np.float32)[None, :] - np.float32(centre[1])
    cos, sin = np.float32(np.cos(angle) / unit), np.float32(np.sin(angle) / unit)
    return cos * dx + sin * dy, cos * dy - sin * dx


def _two_tones(rng: np.random.Generator, label: int) -> tuple[Field, Field]:
    """One dark and one light colour near the hue of the class; golden ratio steps separate the hues."""
    hue = (label * 0.618034 + rng.normal() * 0.015) % 1
    dark = colorsys.hsv_to_rgb(hue, 0.9, rng.uniform(0.25, 0.4))
    light = colorsys.hsv_to_rgb(hue, rng.uniform(0.45, 0.65), rng.uniform(0.9, 1.0))
    return np.array(dark, np.float32) * 255, np.array(light, np.float32) * 255
