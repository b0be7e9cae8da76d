"""Draws an image and its labels together: shapes are filled with a number that stands for a label and a paint.

So labels are exact to the pixel, whatever covers what, and colours and textures cost one look-up for the whole image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from trainmark.datasets.cityscapes.labels import ID_OF
from trainmark.datasets.patterns import TEXTURES

Pixels = npt.NDArray[np.uint8]
Point = tuple[float, float]

_TEXTURE_NAMES = ("plain", *TEXTURES)
_PERIOD = 14.0
"""Period of a texture in pixels, for an image 512 pixels high: visible to the network even at half the size."""
_JITTER = 14.0
_GRAIN = 5.0


@dataclass(frozen=True, kw_only=True)
class Paint:
    colour: tuple[float, float, float]
    texture: str = "plain"
    contrast: float = 0.0
    """Amplitude of the texture in grey levels."""


class Canvas:
    def __init__(self, height: int, width: int, rng: np.random.Generator) -> None:
        self.height, self.width, self.rng = height, width, rng
        self.unit = height / 512
        """Scale relative to an image of 1024 x 512."""
        self._numbers = Image.new("I", (width, height))
        self._pen = ImageDraw.Draw(self._numbers)
        self._ids: list[int] = []
        self._colours: list[npt.NDArray[np.float64]] = []
        self._textures: list[int] = []
        self._contrasts: list[float] = []

    def mix(self, label: str, paint: Paint) -> int:
        """A number to fill shapes with; the colour varies from call to call."""
        shade = 1 + self.rng.uniform(-0.12, 0.12)
        self._ids.append(ID_OF[label])
        self._colours.append(np.array(paint.colour) * shade + self.rng.uniform(-_JITTER, _JITTER, 3))
        self._textures.append(_TEXTURE_NAMES.index(paint.texture))
        self._contrasts.append(paint.contrast * self.rng.uniform(0.8, 1.2))
        return len(self._ids) - 1

    def polygon(self, points: Sequence[Point], fill: int) -> None:
        self._pen.polygon(points, fill=fill)

    def box(self, left: float, top: float, right: float, bottom: float, fill: int) -> None:
        if right >= left and bottom >= top:
            self._pen.rectangle((left, top, right, bottom), fill=fill)

    def oval(self, left: float, top: float, right: float, bottom: float, fill: int) -> None:
        if right >= left and bottom >= top:
            self._pen.ellipse((left, top, right, bottom), fill=fill)

    def develop(self, seed: int) -> tuple[Pixels, Pixels]:
        """The picture and its label ids."""
        numbers = np.asarray(self._numbers)
        ids = np.array(self._ids, dtype=np.uint8)[numbers]
        picture = np.array(self._colours, dtype=np.float32)[numbers]
        picture += (np.array(self._contrasts, dtype=np.float32)[numbers] * self._texture(numbers, seed))[:, :, None]
        picture *= self._light()
        picture += _GRAIN * self._cut(_noise(seed, self.height, self.width))[:, :, None]
        return np.clip(picture, 0, 255, out=picture).astype(np.uint8), ids

    def _texture(self, numbers: npt.NDArray[np.int32], seed: int) -> npt.NDArray[np.float32]:
        kinds = np.array(self._textures, dtype=np.uint8)[numbers]
        field = np.zeros(kinds.shape, np.float32)
        tiles = _tiles(seed, self.height, self.width)
        for kind in np.unique(kinds[kinds > 0]).tolist():
            np.copyto(field, self._cut(tiles[kind - 1]), where=kinds == kind)
        return field

    def _cut(self, tile: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """A random window of a larger pattern."""
        top = int(self.rng.integers(tile.shape[0] - self.height + 1))
        left = int(self.rng.integers(tile.shape[1] - self.width + 1))
        return tile[top : top + self.height, left : left + self.width]

    def _light(self) -> npt.NDArray[np.float32]:
        """Random brightness, tint and direction of the light."""
        tint = self.rng.uniform(0.85, 1.15) * self.rng.uniform(0.95, 1.05, 3)
        slope = np.linspace(-1, 1, self.width) * self.rng.uniform(-0.1, 0.1)
        return ((1 + slope)[None, :, None] * tint).astype(np.float32)


@lru_cache(maxsize=2)
def _tiles(seed: int, height: int, width: int) -> list[npt.NDArray[np.float32]]:
    """Every texture once, larger than an image: drawing them for each image would cost more than everything else."""
    period = np.float32(_PERIOD * height / 512)
    rows = np.arange(height + height // 4, dtype=np.float32)[:, None] / period
    columns = np.arange(width + width // 4, dtype=np.float32)[None, :] / period
    rng = np.random.default_rng([seed, 2**31])
    u, v = np.ascontiguousarray(columns + 0 * rows), np.ascontiguousarray(rows + 0 * columns)
    fields = (texture(u, v, rng) for texture in TEXTURES.values())
    return [np.clip(4 * field, -1, 1).astype(np.float32) for field in fields]


@lru_cache(maxsize=2)
def _noise(seed: int, height: int, width: int) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng([seed, 2**31 + 1])
    return rng.standard_normal((height + height // 4, width + width // 4), dtype=np.float32)
