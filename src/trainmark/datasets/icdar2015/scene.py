"""Draws one image with words from (seed, split, index): textures, plates, rotated and tilted words, noise.

A word's quadrilateral is the bounding box of its ink, with the same perspective transform as its pixels. Some words
are too small or too blurred to read: these are `###`. Pure; writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.icdar2015.lettering import draw_mask, invent_text
from trainmark.datasets.icdar2015.words import DO_NOT_CARE
from trainmark.datasets.patterns import TEXTURES

if TYPE_CHECKING:
    from trainmark.datasets.icdar2015.make import Page

Pixels = NDArray[np.uint8]
Quad = NDArray[np.float64]

_SMALL_HEIGHT = (0.014, 0.024)  # of an unreadable word, relative to the shorter side
_TILT = 0.06  # how far perspective may move a corner, relative to the height of the word
_GRAIN = (4.0, 10.0)  # standard deviation in grey levels
_TRIES_PER_WORD = 16
_MARGIN = 3  # pixels between a word and the image's edge
_GAP = 0.25  # free space around a word, relative to its height


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """One word before it is drawn."""

    text: str
    height: float
    blur: float
    """Standard deviation in pixels; 0 for a sharp word."""

    is_ignored: bool


def draw_scene(*, seed: int, split: int, index: int, page: Page) -> tuple[Pixels, list[tuple[NDArray[np.int64], str]]]:
    """RGB pixels, and for every word its corners, clockwise from the top left of the text, and the transcription."""
    rng = np.random.default_rng([seed, split, index])
    canvas = _background(rng, page.height, page.width)
    taken = np.zeros((page.height, page.width), dtype=np.uint8)
    words: list[tuple[NDArray[np.int64], str]] = []
    for _ in range(int(rng.integers(max(1, page.max_words // 2), page.max_words + 1))):
        plan = _plan_word(rng, page)
        mask = draw_mask(rng, plan.text, plan.height)
        quad = _find_place(rng, taken, mask.shape, plan.height)
        if quad is None:
            continue
        _paint_word(canvas, rng, mask, quad, plan)
        cv2.fillConvexPoly(taken, _grown(quad, _GAP * plan.height), 1)
        words.append((np.rint(quad).astype(np.int64), DO_NOT_CARE if plan.is_ignored else plan.text))
    return _with_grain(canvas, rng, seed), words


def _plan_word(rng: np.random.Generator, page: Page) -> _Plan:
    text = invent_text(rng, page.max_letters)
    is_ignored, is_small = rng.random() < page.ignored_part, rng.random() < 0.5
    part = rng.uniform(*(_SMALL_HEIGHT if is_ignored and is_small else page.word_height))
    height = max(6.0, part * min(page.height, page.width))
    blur = height * rng.uniform(0.18, 0.28) if is_ignored and not is_small else 0.0
    return _Plan(text=text, height=height, blur=blur, is_ignored=is_ignored)


def _find_place(rng: np.random.Generator, taken: Pixels, mask_shape: tuple[int, ...], height: float) -> Quad | None:
    """Corners for a word of this shape that is fully visible and does not overlap others."""
    rows, columns = taken.shape
    width = height * mask_shape[1] / mask_shape[0]
    for _ in range(_TRIES_PER_WORD):
        angle = np.deg2rad(np.clip(rng.normal(0, 18), -60, 60))
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        corners = np.array([[-width, -height], [width, -height], [width, height], [-width, height]]) / 2 @ turn
        corners += rng.uniform(-_TILT, _TILT, (4, 2)) * height
        reach = np.abs(corners).max(axis=0) + _MARGIN
        if 2 * reach[0] >= columns or 2 * reach[1] >= rows:
            continue
        quad: Quad = corners + rng.uniform(reach, (columns, rows) - reach)
        if _is_empty(taken, _grown(quad, _GAP * height)):
            return quad
    return None


def _is_empty(taken: Pixels, outline: NDArray[np.int32]) -> bool:
    low = np.maximum(outline.min(axis=0), 0)
    there = taken[low[1] : outline[:, 1].max() + 1, low[0] : outline[:, 0].max() + 1]
    wanted = np.zeros_like(there)
    cv2.fillConvexPoly(wanted, outline - low, 1)
    return not (wanted & there).any()


def _grown(quad: Quad, by: float) -> NDArray[np.int32]:
    """Moves every corner outwards by about this many pixels."""
    rays = quad - quad.mean(axis=0)
    lengths = np.linalg.norm(rays, axis=1, keepdims=True)
    grown: NDArray[np.int32] = np.rint(quad + rays / lengths * by * 1.5).astype(np.int32)
    return grown


def _paint_word(canvas: Pixels, rng: np.random.Generator, mask: Pixels, quad: Quad, plan: _Plan) -> None:
    """Draws in place, only in the rectangle that the word can reach."""
    if rng.random() < 0.3:
        cv2.fillConvexPoly(canvas, _grown(quad, 0.2 * plan.height), rng.integers(0, 256, 3).tolist(), cv2.LINE_AA)
    pad = 2 + int(3 * plan.blur)
    low = np.maximum(np.floor(quad.min(axis=0)).astype(int) - pad, 0)
    high = np.minimum(np.ceil(quad.max(axis=0)).astype(int) + pad + 1, canvas.shape[1::-1])
    # Corners are on the outer edges of the outermost ink pixels, half a pixel beyond their centres.
    right, bottom = mask.shape[1] - 0.5, mask.shape[0] - 0.5
    source = np.array([[-0.5, -0.5], [right, -0.5], [right, bottom], [-0.5, bottom]], dtype=np.float32)
    transform = cv2.getPerspectiveTransform(source, (quad - low).astype(np.float32))
    cover = cv2.warpPerspective(mask, transform, tuple((high - low).tolist()), flags=cv2.INTER_LINEAR)
    if plan.blur:
        cover = cv2.GaussianBlur(cover, (0, 0), plan.blur)
    patch = canvas[low[1] : high[1], low[0] : high[0]]
    ink = _contrasting(rng, patch[cover > 0] if (cover > 0).any() else patch.reshape(-1, 3))
    alpha = cover[:, :, None].astype(np.float32) / 255
    patch[:] = np.rint(patch * (1 - alpha) + ink * alpha).astype(np.uint8)


def _contrasting(rng: np.random.Generator, under: Pixels) -> NDArray[np.float32]:
    """A random hue, at least 90 grey levels away from the mean of the background."""
    behind = under.mean(axis=0)
    is_light = behind.mean() < 128
    low, high = (behind.mean() + 90, 255) if is_light else (0, behind.mean() - 90)
    return np.clip(rng.uniform(low, max(high, low + 1), 3), 0, 255).astype(np.float32)


def _background(rng: np.random.Generator, height: int, width: int) -> Pixels:
    """Clouds of colour, two textured areas and a few bars: many edges, but no letters."""
    base = rng.integers(50, 206, 3)
    coarse = np.clip(base + rng.integers(-50, 51, (5, 8, 3)), 0, 255).astype(np.uint8)
    canvas: Pixels = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)
    for _ in range(2):
        top, left = int(rng.integers(0, height * 2 // 3)), int(rng.integers(0, width * 2 // 3))
        area = canvas[top : top + height // 2, left : left + width // 2]
        _blend_texture(area, rng, period=rng.uniform(0.03, 0.12) * min(height, width))
    for _ in range(int(rng.integers(0, 4))):
        ends = (rng.uniform(0, 1, (2, 2)) * (width, height)).astype(int)
        thick = max(1, int(rng.uniform(0.003, 0.02) * min(height, width)))
        cv2.line(canvas, ends[0].tolist(), ends[1].tolist(), rng.integers(0, 256, 3).tolist(), thick, cv2.LINE_AA)
    return canvas


def _blend_texture(area: Pixels, rng: np.random.Generator, *, period: float) -> None:
    rows, columns = area.shape[:2]
    texture = tuple(TEXTURES.values())[int(rng.integers(len(TEXTURES)))]
    angle = rng.uniform(0, np.pi)
    y = np.arange(0, rows, 2, dtype=np.float32)[:, None] / np.float32(
        period
    )  # every second pixel: a quarter of the work
    x = np.arange(0, columns, 2, dtype=np.float32)[None, :] / np.float32(period)
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    field = np.clip(texture(cos * x + sin * y, cos * y - sin * x, rng) * 4, -1, 1).astype(np.float32)
    field = cv2.resize(field, (columns, rows), interpolation=cv2.INTER_LINEAR).astype(np.float32, copy=False)
    shift = rng.uniform(-28, 28, 3).astype(np.float32)
    area[:] = np.clip(area + field[:, :, None] * shift, 0, 255).astype(np.uint8)


def _with_grain(canvas: Pixels, rng: np.random.Generator, seed: int) -> Pixels:
    tile = _noise_tile(seed, max(canvas.shape[:2]) + 256)
    top, left = rng.integers(0, 256, 2)
    unit = tile[top : top + canvas.shape[0], left : left + canvas.shape[1]]
    grain = (unit * np.int16(round(rng.uniform(*_GRAIN)))) >> 6
    return np.clip(canvas.astype(np.int16) + grain[:, :, None], 0, 255).astype(np.uint8)


@lru_cache(maxsize=2)
def _noise_tile(seed: int, side: int) -> NDArray[np.int16]:
    """Gaussian noise in 64ths, made once per process: drawing it per image would double the cost."""
    unit = np.random.default_rng([seed, 2**31]).standard_normal((side, side), dtype=np.float32)
    return np.clip(unit * 64, -256, 256).astype(np.int16)
