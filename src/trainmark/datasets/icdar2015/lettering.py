"""Random words, drawn in Pillow's font or one of OpenCV's eight: bold, slanted, narrow or wide.

OpenCV 4 draws its fonts as strokes, OpenCV 5 as outlines: the images differ, and the labels are exact with both.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FACES = (
    cv2.FONT_HERSHEY_SIMPLEX,
    cv2.FONT_HERSHEY_PLAIN,
    cv2.FONT_HERSHEY_DUPLEX,
    cv2.FONT_HERSHEY_COMPLEX,
    cv2.FONT_HERSHEY_TRIPLEX,
    cv2.FONT_HERSHEY_COMPLEX_SMALL,
    cv2.FONT_HERSHEY_SCRIPT_SIMPLEX,
    cv2.FONT_HERSHEY_SCRIPT_COMPLEX,
)
_PILLOW_PART = 0.5
_STRETCH = (0.75, 1.35)
_SLANT = (-0.1, 0.35)
_INK = 64  # a pixel brighter than this belongs to the bounding box of the word


def invent_text(rng: np.random.Generator, max_letters: int) -> str:
    """In a form that is common in streets; some contain a comma."""
    letters = "".join(rng.choice(list(_LETTERS), int(rng.integers(min(3, max_letters), max_letters + 1))))
    kind = rng.random()
    if kind < 0.35:
        return letters
    if kind < 0.6:
        return letters.lower()
    if kind < 0.8:
        return letters.capitalize()
    if kind < 0.9:
        return f"{rng.integers(10, 10 ** min(5, max_letters))}"
    number = f"{rng.integers(1, 10)},{rng.integers(100, 1000)}"
    return number[:max_letters]


def draw_mask(rng: np.random.Generator, text: str, height: float) -> NDArray[np.uint8]:
    """The word in white on black, upright, cropped to its ink, about `height` high so that warping blurs little."""
    draw = _draw_by_pillow if rng.random() < _PILLOW_PART else _draw_by_opencv
    mask = _styled(rng, draw(rng, text, max(height, 12.0)))
    rows, columns = np.nonzero(mask > _INK)
    return np.ascontiguousarray(mask[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1])


def _styled(rng: np.random.Generator, mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Changes the width, and slants one word in three."""
    rows, columns = mask.shape
    stretch, slant = rng.uniform(*_STRETCH), rng.uniform(*_SLANT) if rng.random() < 1 / 3 else 0.0
    overhang = abs(slant) * rows
    change = np.array([[stretch, -slant, overhang if slant > 0 else 0.0], [0.0, 1.0, 0.0]])
    styled = cv2.warpAffine(mask, change, (int(columns * stretch + overhang) + 1, rows))
    return styled.astype(np.uint8, copy=False)


def _draw_by_pillow(rng: np.random.Generator, text: str, height: float) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw, ImageFont

    size = 1.35 * height
    font = ImageFont.load_default(size)
    canvas = Image.new("L", (int(size * (len(text) + 1)), int(2 * size)))
    heavy = max(1, round(height / 16)) if rng.random() < 0.5 else 0
    ImageDraw.Draw(canvas).text((size / 2, size / 4), text, fill=255, font=font, stroke_width=heavy)
    return np.array(canvas)


def _draw_by_opencv(rng: np.random.Generator, text: str, height: float) -> NDArray[np.uint8]:
    face = int(rng.choice(_FACES))
    thick = max(1, round(height / rng.uniform(8, 16)))
    (_, unit_height), _ = cv2.getTextSize(text, face, 1.0, 1)
    scale = height / unit_height
    (width, drawn_height), below = cv2.getTextSize(text, face, scale, thick)
    pad = 4 * thick + int(height)
    mask = np.zeros((drawn_height + below + 2 * pad, width + 2 * pad), dtype=np.uint8)
    cv2.putText(mask, text, (pad, pad + drawn_height), face, scale, 255, thick, cv2.LINE_AA)
    return mask
