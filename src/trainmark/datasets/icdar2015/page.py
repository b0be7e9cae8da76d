"""What the images of a generated set have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Page:
    height: int = 720
    width: int = 1280
    max_words: int = 10
    """An image has at least half as many, unless there is no room: a crop should seldom be without text."""
    max_letters: int = 8
    word_height: tuple[float, float] = (0.06, 0.18)
    """Of the image's shorter side: 43 to 130 pixels of 720."""
    ignored_part: float = 0.15
    """Of the words, too small or too blurred to read: `###`."""
