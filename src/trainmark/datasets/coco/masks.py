"""COCO's masks: run lengths, plain or packed into text, and polygons, rasterised by COCO's own tools.

Packed text has six bits per character, lowest first: five of value, one that says whether more follow. From the fourth
number on, the difference to the number two before is stored. Everything is validated before C code sees it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.coco.tables import CocoSplit
from trainmark.errors import DataError
from trainmark.frameworks import required_extra

_FIRST, _LAST = 48, 48 + 63
_MORE, _SIGN, _VALUE = 0x20, 0x10, 0x1F
_MAX_CHARACTERS = 7  # 35 bits: more than the pixels of any image


def unpack(text: bytes) -> list[int]:
    """Raises ValueError for invalid text."""
    counts: list[int] = []
    at = 0
    while at < len(text):
        value, shift = 0, 0
        while True:
            if at >= len(text):
                raise ValueError("run lengths that end in the middle of a number")
            if not _FIRST <= text[at] <= _LAST or shift >= 5 * _MAX_CHARACTERS:
                raise ValueError(f"an invalid run length at character {at + 1}")
            part = text[at] - _FIRST
            value |= (part & _VALUE) << shift
            at, shift = at + 1, shift + 5
            if not part & _MORE:
                break
        if part & _SIGN:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
    return counts


def pack(counts: Sequence[int]) -> bytes:
    text = bytearray()
    for number, count in enumerate(counts):
        value = count - (counts[number - 2] if number > 2 else 0)
        while True:
            part = value & _VALUE
            value >>= 5
            more = value != (-1 if part & _SIGN else 0)
            text.append(_FIRST + part + (_MORE if more else 0))
            if not more:
                break
    return bytes(text)


def read_runs(segmentation: Any, height: int, width: int) -> bytes:
    """Converts {"size": ..., "counts": ...} to packed text. Raises ValueError if it does not fill the image exactly."""
    size, counts = segmentation.get("size"), segmentation.get("counts")
    if size != [height, width]:
        raise ValueError(f"run lengths for an image of {_as_size(size)}, not {width} x {height}")
    if isinstance(counts, str):
        counts = unpack(counts.encode(errors="surrogatepass"))
    if not isinstance(counts, list) or not all(type(count) is int for count in counts):
        raise ValueError("run lengths that are not integers")
    if any(count < 0 for count in counts) or sum(counts) != height * width:
        raise ValueError(f"run lengths that do not add up to {width} x {height} pixels")
    return pack(counts)


def _as_size(size: Any) -> str:
    is_pair = isinstance(size, list) and len(size) == 2 and all(type(side) is int for side in size)
    return f"{size[1]} x {size[0]}" if is_pair else "unknown size"


_REACH = 4096.0
"""Corners are clipped this far outside the image: the rasteriser ignores what is outside, but uses 32 bits."""


def load_coco_mask() -> ModuleType:
    try:
        from pycocotools import mask
    except ImportError as error:
        raise DataError(
            "cannot read COCO masks",
            why="pycocotools is not installed",
            hint=f"pip install {required_extra('torch')}, or pip install pycocotools",
        ) from error
    module: ModuleType = mask
    return module


def run_lengths(split: CocoSplit, instance: int, image: int) -> dict[str, Any]:
    """The RLE dict of pycocotools: `size` and `counts`."""
    height, width = int(split.images.heights[image]), int(split.images.widths[image])
    text = split.instances.run_text(instance)
    if text:
        return {"size": [height, width], "counts": text}
    coco_mask = load_coco_mask()
    limits = (-_REACH, max(height, width) + _REACH)
    rings = [np.clip(ring, *limits).tolist() for ring in split.instances.rings(instance)]
    merged: dict[str, Any] = coco_mask.merge(coco_mask.frPyObjects(rings, height, width))
    return merged


def bitmaps(split: CocoSplit, instances: list[int], image: int) -> NDArray[np.uint8]:
    """Instances x height x width of 0 and 1."""
    import cv2

    coco_mask = load_coco_mask()
    height, width = int(split.images.heights[image]), int(split.images.widths[image])
    maps = np.empty((len(instances), height, width), dtype=np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy 2 warns about the arrays of pycocotools
        for place, instance in zip(maps, instances, strict=True):
            # Decoded column by column; cv2 transposes that ten times faster than numpy.
            cv2.transpose(coco_mask.decode(run_lengths(split, instance, image)).T, dst=place)
    return maps
