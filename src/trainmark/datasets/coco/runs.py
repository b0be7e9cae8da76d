"""COCO's run lengths: plain lists of numbers, and the text they are packed into. Judged before any C code sees them.

In the text a number takes six bits per character, lowest first: five of value, one that says whether more follow. From
the fourth number on, what is written is the difference to the number two before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_FIRST, _LAST = 48, 48 + 63
_MORE, _SIGN, _VALUE = 0x20, 0x10, 0x1F
_MAX_CHARACTERS = 7  # 35 bits: more than any picture has pixels


def unpack(text: bytes) -> list[int]:
    """A ValueError says what is wrong with the text."""
    counts: list[int] = []
    at = 0
    while at < len(text):
        value, shift = 0, 0
        while True:
            if at >= len(text):
                raise ValueError("the run lengths end in the middle of a number")
            if not _FIRST <= text[at] <= _LAST or shift >= 5 * _MAX_CHARACTERS:
                raise ValueError(f"no run length at character {at + 1}")
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
    """{"size": ..., "counts": ...} to text that fills the image exactly. A ValueError says why it is not that."""
    size, counts = segmentation.get("size"), segmentation.get("counts")
    if size != [height, width]:
        raise ValueError(f"run lengths for an image of {_as_size(size)}, not {width} x {height}")
    if isinstance(counts, str):
        counts = unpack(counts.encode(errors="surrogatepass"))
    if not isinstance(counts, list) or not all(type(count) is int for count in counts):
        raise ValueError("run lengths that are not whole numbers")
    if any(count < 0 for count in counts) or sum(counts) != height * width:
        raise ValueError(f"run lengths that do not add up to {width} x {height} pixels")
    return pack(counts)


def _as_size(size: Any) -> str:
    is_pair = isinstance(size, list) and len(size) == 2 and all(type(side) is int for side in size)
    return f"{size[1]} x {size[0]}" if is_pair else "no stated size"
