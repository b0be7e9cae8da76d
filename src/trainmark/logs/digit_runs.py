"""The runs of digits in lines that are all alike: where they are, and their values, for all lines at once.

The text is looked at in words of eight bytes, one that begins at each byte. The text between two runs
is compared with that of a template word by word, and one word is enough to make a number of up to eight digits: a few
operations on all runs of all lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Words = NDArray[np.uint64]

REMOVED = b"0123456789 "
MAX_DIGITS = 15
"""A double cannot hold more; such lines are read one by one."""
_WORD = 8
_MARGIN = b" " * (2 * _WORD)
"""Before and after the text, so that a word may begin before the first byte or end after the last one."""
_RUN = re.compile(rb"\d+")
_SPACES = int.from_bytes(b" " * _WORD, "little")


def _masks(places: list[int]) -> Words:
    return np.array(places, dtype=np.uint64)


_FIRST = _masks([(1 << 8 * count) - 1 for count in range(_WORD + 1)])
"""The first bytes of a word, by their number."""
_LAST = _masks([((1 << 64) - 1) ^ ((1 << 8 * (_WORD - count)) - 1) for count in range(_WORD + 1)])
"""The last bytes of a word, by their number."""
_POWERS: Floats = np.array([10.0**power for power in range(MAX_DIGITS + 2)])


@dataclass(frozen=True, kw_only=True)
class Number:
    """Which runs of digits of a line make a number."""

    whole: tuple[int, ...]
    """Several if there are thousands separators."""
    fraction: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """Where each run of digits begins and ends, a row per run and a column per line."""

    begins: Places
    ends: Places
    words: Words
    """The word that begins at each byte."""

    start: int
    """Where the text begins in what the other places count from."""

    def within_lines(self) -> Places:
        """A place in the text for each line: where its first run begins."""
        places: Places = self.begins[0] - self.start
        return places


class Template:
    """A line, and what may differ in others: digits, and the number of spaces before them."""

    def __init__(self, line: bytes, joined: Sequence[int], is_same: Callable[[bytes], bool]) -> None:
        """`joined`: runs that must follow the one before with a single character between.

        `is_same`: whether a line with another number of spaces is read like this one.
        """
        spans = [match.span() for match in _RUN.finditer(line)]
        self.skeleton = line.translate(None, REMOVED)
        self._joined = np.array(joined, dtype=np.intp)
        edges = [0, *(edge for span in spans for edge in span), len(line)]
        between = [line[begin:end] for begin, end in zip(edges[0::2], edges[1::2], strict=True)]
        self._tail = between[-1]
        self._before = _MARGIN + self._tail
        """What stands before the text, as if there were a line above it."""
        self.fixed = [text.rstrip(b" ") for text in [self._tail + between[0], *between[1:-1]]]
        """What stands before each run, without the spaces that align it to the right."""
        self._parts = [_Part.of(self.fixed, start) for start in range(0, max(map(len, self.fixed), default=0), _WORD)]
        least, most = _find_spaces(line, spans, is_same)
        widths = np.array([[len(text)] for text in self.fixed], dtype=np.intp)
        self._widths, self._shortest, self._longest = widths, widths + least, widths + most
        self._padded = np.flatnonzero(most.ravel() > 0)

    def find(self, text: bytes) -> Runs | None:
        """None unless the text is the template again and again."""
        padded = self._before + text + _MARGIN
        block = np.frombuffer(padded, dtype=np.uint8)
        is_digit = (block - 48) < 10  # unsigned: other characters wrap around
        edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
        num, rest = divmod(len(edges), 2 * len(self.fixed)) if self.fixed else (0, 0)
        if rest or not num or padded[edges[-1] : -len(_MARGIN)] != self._tail:
            return None
        begins, ends = (np.ascontiguousarray(edges[side::2].reshape(num, -1).T) for side in (0, 1))
        found = Runs(begins=begins, ends=ends, words=_words(padded), start=len(self._before))
        return found if self._is_in(found) else None

    def _is_in(self, found: Runs) -> bool:
        """Whether before each run is what the template has there."""
        begins, ends, words = found.begins, found.ends, found.words
        before = np.empty_like(begins)
        before[0, 0], before[0, 1:], before[1:] = len(_MARGIN), ends[-1, :-1], ends[:-1]
        widths = begins - before
        if (widths < self._shortest).any() or (widths > self._longest).any():
            return False
        if not all(part.is_in(words, before) for part in self._parts):
            return False
        mask = _LAST[(widths - self._widths)[self._padded]]
        if not ((words[begins[self._padded] - _WORD] & mask) == (np.uint64(_SPACES) & mask)).all():
            return False
        return bool((widths[self._joined] == 1).all())


def _find_spaces(
    line: bytes, spans: Sequence[tuple[int, int]], is_same: Callable[[bytes], bool]
) -> tuple[Places, Places]:
    """The least and the most spaces before each run with which the line is still read in the same way."""
    own = [begin - len(line[:begin].rstrip(b" ")) for begin, _ in spans]
    least, most = list(own), list(own)
    for run, count in enumerate(own):
        if not 0 < count <= _WORD:
            continue
        while least[run] > 0 and is_same(_with_spaces(line, spans, {run: least[run] - 1})):
            least[run] -= 1
        while most[run] < _WORD and is_same(_with_spaces(line, spans, {run: most[run] + 1})):
            most[run] += 1
    for counts in (least, most):
        if not is_same(_with_spaces(line, spans, dict(enumerate(counts)))):
            counts[:] = own
    # More than a word cannot be compared: no such line is read as columns.
    most = [count if count <= _WORD else -1 for count in most]
    return np.array(least, dtype=np.intp)[:, np.newaxis], np.array(most, dtype=np.intp)[:, np.newaxis]


def _with_spaces(line: bytes, spans: Sequence[tuple[int, int]], counts: Mapping[int, int]) -> bytes:
    """The line with so many spaces before some of its runs."""
    made, position = [], 0
    for run, (begin, end) in enumerate(spans):
        text = line[position:begin]
        made += [text.rstrip(b" ") + b" " * counts[run] if run in counts else text, line[begin:end]]
        position = end
    return b"".join([*made, line[position:]])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """Up to eight bytes of what stands before each run, of those that have so many."""

    start: int
    runs: Places
    masks: Words
    wanted: Words

    @classmethod
    def of(cls, texts: list[bytes], start: int) -> _Part:
        parts = {run: text[start : start + _WORD] for run, text in enumerate(texts) if len(text) > start}
        return cls(
            start=start,
            runs=np.array(list(parts), dtype=np.intp),
            masks=_FIRST[[len(part) for part in parts.values()]][:, np.newaxis],
            wanted=_masks([int.from_bytes(part, "little") for part in parts.values()])[:, np.newaxis],
        )

    def is_in(self, words: Words, before: Places) -> bool:
        return bool(((words[before[self.runs] + self.start] & self.masks) == self.wanted).all())


def _words(padded: bytes) -> Words:
    """All of them are copied once: to take single ones from unaligned memory is ten times slower."""
    unaligned: Words = np.ndarray((len(padded) - _WORD + 1,), dtype="<u8", buffer=padded, strides=(1,))
    return np.ascontiguousarray(unaligned)


class Digits:
    """The wanted runs of digits as numbers, all of them in one pass."""

    def __init__(self, runs: Runs, wanted: tuple[int, ...]) -> None:
        self._place = {run: place for place, run in enumerate(wanted)}
        rows = list(wanted)
        ends = runs.ends[rows]
        self._lengths = ends - runs.begins[rows]
        self._longest, self._shortest = self._lengths.max(axis=1), self._lengths.min(axis=1)
        if int(self._longest.max()) > MAX_DIGITS:
            raise ValueError("too many digits")
        self._values = _to_numbers(runs.words[ends - _WORD], np.minimum(self._lengths, _WORD))
        for row in np.flatnonzero(self._longest > _WORD):
            more = np.maximum(self._lengths[row] - _WORD, 0)
            self._values[row] += 1e8 * _to_numbers(runs.words[ends[row] - 2 * _WORD], more)

    def integer(self, run: int) -> Floats:
        values: Floats = self._values[self._place[run]]
        return values

    def length(self, run: int) -> Places:
        lengths: Places = self._lengths[self._place[run]]
        return lengths

    def power(self, run: int) -> Floats | np.float64:
        """Ten to the number of its digits; one number if all lines have as many."""
        place = self._place[run]
        is_even = self._longest[place] == self._shortest[place]
        power: Floats | np.float64 = _POWERS[self._longest[place] if is_even else self._lengths[place]]
        return power

    def number(self, runs: Number) -> tuple[Floats, Floats]:
        """The values, and half of the last digit of each. ValueError if one is too long to be exact."""
        value, num_digits = self.integer(runs.whole[0]), self._most(runs.whole)
        for run in runs.whole[1:]:
            value = value * 1000.0 + self.integer(run)
        num_digits += self._most((runs.fraction,)) if runs.fraction is not None else 0
        if num_digits > MAX_DIGITS:
            raise ValueError("too many digits")
        if runs.fraction is None:
            return value, np.broadcast_to(0.5, value.shape)
        # Both are exact, so the quotient is the double nearest to the decimal number, as `float` gives it.
        scale = self.power(runs.fraction)
        return (value * scale + self.integer(runs.fraction)) / scale, np.broadcast_to(0.5 / scale, value.shape)

    def _most(self, runs: tuple[int, ...]) -> int:
        return sum(int(self._longest[self._place[run]]) for run in runs)


def _to_numbers(words: Words, lengths: Places) -> Floats:
    """The last digits of each word, as many as `lengths` says. Neighbours are joined: pairs, fours, then all eight."""
    found = (words & _LAST[lengths]) & np.uint64(0x0F0F0F0F0F0F0F0F)
    found = (found * np.uint64(10) + (found >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    found = (found * np.uint64(100) + (found >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    found = (found * np.uint64(10000) + (found >> np.uint64(32))) & np.uint64(0x00000000FFFFFFFF)
    return found.astype(np.float64)
