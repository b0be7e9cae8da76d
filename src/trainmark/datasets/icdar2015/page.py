"""What the images of a generated set have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Page:
    height: int = 720
    width: int = 1280
    max_words: int = 10
    word_height: tuple[float, float] = (0.05, 0.15)
    """Of the image's shorter side: 36 to 108 pixels of 720."""
