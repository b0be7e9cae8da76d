"""Draws one image from (seed, split, index): textured shapes on clouds, with noise. Pure; writes nothing.

Colours, sizes, positions and rotations are random in every image, so only shape and texture tell the class. Fields are
computed as float32 by numpy; Pillow blends in integers, which is faster.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trainmark.datasets.patterns import SHAPES, TEXTURES, Field

if TYPE_CHECKING:
    from PIL import Image

Pixels = npt.NDArray[np.uint8]
Range = tuple[float, float]

# Four places (y, x, radius), so that a small random crop still contains a shape: three small ones near the edges, then
# a large one on top. Places are fractions of the image, radii of its shorter side.
_PLACES: tuple[tuple[Range, Range, Range], ...] = (
    ((0.05, 0.30), (0.05, 0.30), (0.20, 0.30)),
    ((0.05, 0.95), (0.80, 0.95), (0.20, 0.30)),
    ((0.75, 0.95), (0.05, 0.40), (0.20, 0.30)),
    ((0.35, 0.65), (0.35, 0.65), (0.45, 0.60)),
)
_PERIOD: Range = (0.11, 0.16)  # relative to the shorter side: seven to ten pixels when the image is 64 pixels high
_GRAIN: Range = (11.0, 20.0)  # standard deviation in grey levels; sets the size of the JPEG file
_SCALE: Range = (0.85, 1.15)
_STRETCH: Range = (0.92, 1.08)


def draw_scene(*, label: int, seed: int, split: int, index: int, mean_size: tuple[int, int]) -> Pixels:
    rng = np.random.default_rng([seed, split, index])
    height, width = _random_size(rng, mean_size)
    shorter = min(height, width)
    canvas = _clouds(rng, height, width)
    for y_range, x_range, radius_range in _PLACES:
        centre = (rng.uniform(*y_range) * height, rng.uniform(*x_range) * width)
        radius, period = rng.uniform(*radius_range) * shorter, rng.uniform(*_PERIOD) * shorter
        _paint(canvas, rng, label=label, centre=centre, radius=radius, period=period)
    return _with_grain(canvas, rng, _noise_tile(seed, int(2 * max(mean_size) * _SCALE[1] * _STRETCH[1])))


def _random_size(rng: np.random.Generator, mean_size: tuple[int, int]) -> tuple[int, int]:
    """Random size around the mean area; a quarter of the images have height and width swapped."""
    scale, stretch = rng.uniform(*_SCALE), rng.uniform(*_STRETCH)
    height, width = round(mean_size[0] * scale / stretch), round(mean_size[1] * scale * stretch)
    return (width, height) if rng.random() < 0.25 else (height, width)


def _clouds(rng: np.random.Generator, height: int, width: int) -> Image.Image:
    from PIL import Image

    base = rng.integers(70, 186, 3)
    coarse = np.clip(base + rng.integers(-45, 46, (5, 6, 3)), 0, 255).astype(np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)


def _paint(
    canvas: Image.Image,
    rng: np.random.Generator,
    *,
    label: int,
    centre: tuple[float, float],
    radius: float,
    period: float,
) -> None:
    """Blends one shape into the canvas in place, only in the rectangle that it can reach."""
    from PIL import Image

    shape = tuple(SHAPES.values())[label % len(SHAPES)]
    texture = tuple(TEXTURES.values())[label % len(TEXTURES)]
    reach = 1.1 * radius  # the corners of a triangle are a tenth outside the unit circle
    top, left = max(0, int(centre[0] - reach)), max(0, int(centre[1] - reach))
    bottom, right = min(canvas.height, int(centre[0] + reach) + 1), min(canvas.width, int(centre[1] + reach) + 1)
    dy = np.arange(top, bottom, dtype=np.float32)[:, None] - np.float32(centre[0])
    dx = np.arange(left, right, dtype=np.float32)[None, :] - np.float32(centre[1])

    x, y = _turned(dx, dy, angle=rng.uniform(0, 2 * np.pi), unit=radius)
    u, v = _turned(dx, dy, angle=rng.uniform(0, 2 * np.pi), unit=period)
    cover = _as_levels(shape(x, y), np.float32(255 * radius))
    ink = Image.fromarray(_as_levels(texture(u, v, rng), np.float32(255 * 4)))
    ink.putpalette(_two_colour_palette(rng))
    canvas.paste(ink.convert("RGB"), (left, top), mask=Image.fromarray(cover))


def _turned(dx: Field, dy: Field, *, angle: float, unit: float) -> tuple[Field, Field]:
    cos, sin = np.float32(np.cos(angle) / unit), np.float32(np.sin(angle) / unit)
    return cos * dx + sin * dy, cos * dy - sin * dx


def _as_levels(field: Field, steepness: np.float32) -> Pixels:
    """0 if the field is negative, 255 if positive, with a short ramp between."""
    levels = field * steepness
    levels += np.float32(128)
    return np.clip(levels, 0, 255, out=levels).astype(np.uint8)


def _two_colour_palette(rng: np.random.Generator) -> bytes:
    """Two random hues, one dark and one light, so that the texture is visible after scaling down."""
    dark, light = rng.uniform(0, 90, 3), rng.uniform(165, 255, 3)
    first, last = (dark, light) if rng.random() < 0.5 else (light, dark)
    return np.linspace(first, last, 256).astype(np.uint8).tobytes()


def _with_grain(canvas: Image.Image, rng: np.random.Generator, tile: npt.NDArray[np.int16]) -> Pixels:
    top, left = rng.integers(0, tile.shape[0] - canvas.height), rng.integers(0, tile.shape[1] - canvas.width)
    unit_grain = tile[top : top + canvas.height, left : left + canvas.width]
    grain = (unit_grain * np.int16(round(rng.uniform(*_GRAIN)))) >> 6
    noisy = np.asarray(canvas, dtype=np.int16)
    noisy = noisy + grain[:, :, None]
    return np.clip(noisy, 0, 255, out=noisy).astype(np.uint8)


@lru_cache(maxsize=2)
def _noise_tile(seed: int, side: int) -> npt.NDArray[np.int16]:
    """Gaussian noise in 64ths, made once per process: drawing it per image would double the cost."""
    unit = np.random.default_rng([seed, 2**31]).standard_normal((side, side), dtype=np.float32)
    return np.clip(unit * 64, -256, 256).astype(np.int16)
