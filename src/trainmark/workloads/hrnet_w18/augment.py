"""The recipe's augmentation of a street scene and its labels, on bytes, by OpenCV.

Decoding the two PNGs of 2048 x 1024 (Cityscapes' own size, 3.2 MB) takes most of the time of a sample. So the place of
the crop is drawn first, and what lies below it is not decoded; what lies right of it or below is not scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.cityscapes.labels import IGNORED

Pixels = NDArray[np.uint8]

SCALES = tuple(0.25 * step for step in range(2, 9))
PAD = 128
"""The recipe's 127.5 rounded, since images are bytes until they are on the device; 0.004 instead of 0 there."""
_MARGIN = 4
_STRENGTH = 0.4
_HUE = 18
"""Of 256 steps around the hue circle: 25 degrees."""
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A crop of `height` x `width` at a place of the scaled image."""

    factor: float
    top: int
    left: int
    height: int
    width: int
    num_rows: int
    num_columns: int
    """Of the image before it is scaled, from its first corner on: all that the crop depends on."""


def draw_cut(size: tuple[int, int], *, height: int, width: int, rng: np.random.Generator) -> Cut:
    """`size` is the height and width of the image."""
    factor = float(rng.choice(SCALES))
    scaled_height, scaled_width = (_scaled(side, factor) for side in size)
    top = int(rng.integers(max(0, scaled_height - height) + 1))
    left = int(rng.integers(max(0, scaled_width - width) + 1))
    num_rows, num_columns = _needed(size[0], factor, top + height), _needed(size[1], factor, left + width)
    return Cut(
        factor=factor, top=top, left=left, height=height, width=width, num_rows=num_rows, num_columns=num_columns
    )


def _scaled(side: int, factor: float) -> int:
    return max(1, round(side * factor)) if factor != 1 else side


def _needed(side: int, factor: float, end: int) -> int:
    """Pixels of a side that the scaled one depends on up to `end`.

    Factors are quarters, so a multiple of four is scaled to whole pixels: then each pixel is that of the whole image,
    except at the new border, which the margin keeps out of the crop.
    """
    if side % 4:
        return side
    return min(side, 4 * math.ceil(end / factor / 4) + _MARGIN)


def augment(image: Pixels, labels: Pixels, cut: Cut, rng: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Scale, pad and crop, flip at random, and distort the colours of the image. The image may end behind the cut."""
    image, labels = (pixels[: cut.num_rows, : cut.num_columns] for pixels in (image, labels))
    image, labels = pad_and_crop(*scale(image, labels, cut.factor), cut)
    if rng.random() < 0.5:
        image, labels = np.ascontiguousarray(image[:, ::-1]), np.ascontiguousarray(labels[:, ::-1])
    return distort(image, rng), labels


def scale(image: Pixels, labels: Pixels, factor: float) -> tuple[Pixels, Pixels]:
    if factor == 1:
        return image, labels
    target = (_scaled(image.shape[1], factor), _scaled(image.shape[0], factor))
    image = cv2.resize(image, target, interpolation=cv2.INTER_LINEAR).astype(np.uint8, copy=False)
    # EXACT: the plain mode shifts labels against the image by half a pixel.
    return image, cv2.resize(labels, target, interpolation=cv2.INTER_NEAREST_EXACT).astype(np.uint8, copy=False)


def pad_and_crop(image: Pixels, labels: Pixels, cut: Cut) -> tuple[Pixels, Pixels]:
    """Pad on the right and below; crop."""
    rows, columns = slice(cut.top, cut.top + cut.height), slice(cut.left, cut.left + cut.width)
    image, labels = image[rows, columns], labels[rows, columns]
    down, right = cut.height - labels.shape[0], cut.width - labels.shape[1]
    if down or right:
        image = np.pad(image, ((0, down), (0, right), (0, 0)), constant_values=PAD)
        labels = np.pad(labels, ((0, down), (0, right)), constant_values=IGNORED)
    return np.ascontiguousarray(image), np.ascontiguousarray(labels)


def distort(image: Pixels, rng: np.random.Generator) -> Pixels:
    """Brightness, contrast, saturation and hue, in random order, each with probability 1/2."""
    for position in rng.permutation(len(_DISTORTIONS)):
        if rng.random() < 0.5:
            image = _DISTORTIONS[position](image, float(rng.uniform(-1, 1)))
    return image


def brighten(image: Pixels, amount: float) -> Pixels:
    return _look_up(image, np.arange(256) * (1 + _STRENGTH * amount))


def change_contrast(image: Pixels, amount: float) -> Pixels:
    """Around the mean grey of this image."""
    centre = round(float(np.dot(cv2.mean(image)[:3], _LUMINANCE)))
    return _look_up(image, centre + (np.arange(256) - centre) * (1 + _STRENGTH * amount))


def saturate(image: Pixels, amount: float) -> Pixels:
    """Interpolate between the grey image and the coloured one, or extrapolate."""
    factor = 1 + _STRENGTH * amount
    mixing = factor * np.eye(3, dtype=np.float32) + (1 - factor) * _LUMINANCE[None, :]
    return cv2.transform(image, mixing).astype(np.uint8, copy=False)


def turn_hue(image: Pixels, amount: float) -> Pixels:
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL)
    hsv[:, :, 0] += np.uint8(round(_HUE * amount) % 256)  # a byte wraps around like the hue circle
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB_FULL).astype(np.uint8, copy=False)


def _look_up(image: Pixels, values: NDArray[Any]) -> Pixels:
    table = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return cv2.LUT(image, table).astype(np.uint8, copy=False)


_DISTORTIONS: tuple[Callable[[Pixels, float], Pixels], ...] = (brighten, change_contrast, saturate, turn_hue)
