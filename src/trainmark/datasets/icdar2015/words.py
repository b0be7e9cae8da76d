"""Parses a `gt_img_N.txt`: one word per line, `x1,y1,x2,y2,x3,y3,x4,y4,transcription`, UTF-8 with or without a BOM.

The transcription may contain commas; `###` marks a word that need not be found. An invalid line is skipped and
reported; the rest of the file is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainmark.datasets.report import FaultKind
from trainmark.units import format_count

DO_NOT_CARE = "###"
MAX_LABEL_BYTES = 2**20  # the largest of the public set has 5 KB; do not parse a video with the name of a label file

_NUM_COORDINATES = 8
_FARTHEST = 1e6  # pixels: larger than any image, and its square is still an exact float
_MIN_AREA = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Word:
    quad: NDArray[np.float64]
    """Four corners (x, y), in pixels of the image."""

    text: str
    line: int
    """Counted from 1."""

    @property
    def is_ignored(self) -> bool:
        return self.text == DO_NOT_CARE


@dataclass(frozen=True, kw_only=True)
class Problem:
    kind: FaultKind
    what: str


def parse_words(data: bytes) -> tuple[list[Word], list[Problem]]:
    """An empty file is valid: an image without text."""
    if len(data) > MAX_LABEL_BYTES:
        return [], [Problem(kind=FaultKind.TOO_LARGE, what=f"a label file of more than {MAX_LABEL_BYTES:,} bytes")]
    problems = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(Problem(kind=FaultKind.NOT_TEXT, what=f"not UTF-8 at byte {error.start}; coordinates are used"))
        text = data.decode("utf-8-sig", errors="replace")
    words = []
    for number, line in enumerate(text.split("\n"), start=1):  # not splitlines: a transcription may contain U+2028
        if not line.strip():
            continue
        found = _parse_line(line.strip("\r"), number)
        if isinstance(found, Word):
            words.append(found)
        else:
            problems.append(Problem(kind=FaultKind.BAD_LINE, what=f"line {number}: {found}; skipped"))
    return words, problems


def _parse_line(line: str, number: int) -> Word | str:
    parts = line.split(",", _NUM_COORDINATES)
    if len(parts) < _NUM_COORDINATES:
        return f"{format_count(len(parts), 'fields')} instead of {_NUM_COORDINATES} numbers and a transcription"
    try:
        numbers = [float(part) for part in parts[:_NUM_COORDINATES]]
    except ValueError:
        return f"the first {_NUM_COORDINATES} fields are not all numbers"
    if not all(abs(value) <= _FARTHEST for value in numbers):  # false for NaN
        return f"a coordinate is not within ±{_FARTHEST:,.0f}"
    transcription = parts[_NUM_COORDINATES] if len(parts) > _NUM_COORDINATES else ""
    return Word(quad=np.array(numbers).reshape(4, 2), text=transcription, line=number)


def fit_words(words: list[Word], *, height: int, width: int) -> tuple[list[Word], list[Problem]]:
    """Fits words to the size of the image: moves corners to its edge, skips words without area."""
    fitted, problems = [], []
    for word in words:
        quad = np.clip(word.quad, 0, (width, height))
        if quad_area(word.quad) < _MIN_AREA:
            problems.append(
                Problem(kind=FaultKind.ZERO_AREA, what=f"line {word.line}: a polygon without area; skipped")
            )
            continue
        if (quad != word.quad).any():
            gone = quad_area(quad) < _MIN_AREA
            what = f"line {word.line}: a polygon {'fully' if gone else 'partly'} outside the {width} x {height} image"
            problems.append(Problem(kind=FaultKind.OUTSIDE_IMAGE, what=f"{what}; {'skipped' if gone else 'clipped'}"))
            if gone:
                continue
        fitted.append(replace(word, quad=quad))
    return fitted, problems


def quad_area(quad: NDArray[np.float64]) -> float:
    """The largest area over all orders of the corners: zero only if all four are on one line.

    Twice the area is the cross product of the diagonals. In the given order, the area of a bow tie may cancel out.
    """
    x, y = quad[:, 0], quad[:, 1]
    pairings = ((0, 2, 1, 3), (0, 1, 2, 3), (0, 3, 1, 2))
    crosses = [(x[b] - x[a]) * (y[d] - y[c]) - (y[b] - y[a]) * (x[d] - x[c]) for a, b, c, d in pairings]
    return float(max(abs(cross) for cross in crosses)) / 2
