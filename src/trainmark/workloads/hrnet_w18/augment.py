"""The recipe's augmentation of a street scene and its labels, on bytes, by OpenCV.

A training sample of 2048 x 1024 (Cityscapes' own size, a PNG of 3.2 MB) costs 76 ms of one core of a virtual AMD EPYC:
60 for decoding the two files, 7 for scaling (1 to 15), 2 for colours. So the PNG decoder dominates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.cityscapes.labels import IGNORED

Pixels = NDArray[np.uint8]

SCALES = tuple(0.25 * step for step in range(2, 9))
PAD = 128
"""The recipe's 127.5 rounded, since images are bytes until they are on the device; 0.004 instead of 0 there."""
_STRENGTH = 0.4
_HUE = 18
"""Of 256 steps around the hue circle: 25 degrees."""
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def augment(
    image: Pixels, labels: Pixels, *, height: int, width: int, rng: np.random.Generator
) -> tuple[Pixels, Pixels]:
    """Scale, pad and crop to `height` x `width`, flip at random, and distort the colours of the image."""
    image, labels = scale(image, labels, float(rng.choice(SCALES)))
    image, labels = pad_and_crop(image, labels, height=height, width=width, rng=rng)
    if rng.random() < 0.5:
        image, labels = np.ascontiguousarray(image[:, ::-1]), np.ascontiguousarray(labels[:, ::-1])
    return distort(image, rng), labels


def scale(image: Pixels, labels: Pixels, factor: float) -> tuple[Pixels, Pixels]:
    if factor == 1:
        return image, labels
    target = (max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor)))
    image = cv2.resize(image, target, interpolation=cv2.INTER_LINEAR).astype(np.uint8, copy=False)
    # EXACT: the plain mode shifts labels against the image by half a pixel.
    return image, cv2.resize(labels, target, interpolation=cv2.INTER_NEAREST_EXACT).astype(np.uint8, copy=False)


def pad_and_crop(
    image: Pixels, labels: Pixels, *, height: int, width: int, rng: np.random.Generator
) -> tuple[Pixels, Pixels]:
    """Pad on the right and below; crop at a random place."""
    top = int(rng.integers(max(0, labels.shape[0] - height) + 1))
    left = int(rng.integers(max(0, labels.shape[1] - width) + 1))
    image, labels = image[top : top + height, left : left + width], labels[top : top + height, left : left + width]
    down, right = height - labels.shape[0], width - labels.shape[1]
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
