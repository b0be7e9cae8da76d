"""Read the step lines of a block as columns of numbers, without a Python object per line.

A template is one line without its digits and spaces. If the block, or all of its lines with the dialect's literal,
consist of that template again and again, the digits are found with array operations and become numbers column by
column. Otherwise the lines are read one by one. The records are the same either way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.dialect import DURATIONS, Probe, read_step
from trainmark.logs.noise import TIME, TIME_WITHIN, days_of
from trainmark.logs.template import find_spans

Rows = NDArray[np.float64]
Floats = NDArray[np.float64]
Places = NDArray[np.intp]
FIELDS = (
    "is_trace", "step", "epoch", "time_s", "seconds", "rate", "samples", "loss", "mean_s", "total_s", "half_digit",
    "total_half_digit",
)  # fmt: skip
"""The columns of `Rows`, in the order of the spool; NaN means absent."""

_COLUMN = {name: place for place, name in enumerate(FIELDS)}
_PLAIN = ("step", "epoch", "samples", "loss")
_MEMORY = "memory_mb"
_IGNORED = ("unit", "lr", "device_samples", "of")
_TIME_PARTS = ("hours", "minutes", "seconds_of_minute", "fraction")
_MAX_DIGITS = 15
"""A double cannot hold more; such lines are read one by one."""
_MAX_PART_BYTES = 1 << 18
"""Arrays for a larger part do not stay in a core's cache, and each one costs page faults."""
_DIGITS, _REMOVED = b"0123456789", b"0123456789 "
_RUN = re.compile(rb"\d+")
_PLAIN_NUMBER = re.compile(rb"\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True, eq=False)
class StepRows:
    rows: Rows
    positions: NDArray[np.int64]
    """Where each line begins in the block."""
    peak_memory_bytes: int | None = None
    is_whole: bool = False
    """Every line of the part is a step."""


@dataclass(frozen=True, kw_only=True)
class _Number:
    """Which runs of digits of a line make a number."""

    whole: tuple[int, ...]
    """Several if there are thousands separators."""
    fraction: int | None


@dataclass(frozen=True, kw_only=True)
class _Text:
    """The digits of one part of the block: where each run begins and ends, a row per line."""

    block: NDArray[np.uint8]
    begins: Places
    ends: Places


class _Digits:
    """The wanted runs of digits as numbers, all of them in one pass."""

    def __init__(self, text: _Text, runs: tuple[int, ...]) -> None:
        lengths = (text.ends - text.begins)[:, runs].T
        longest = lengths.max(axis=1)
        if int(longest.max()) > _MAX_DIGITS:
            raise ValueError("too many digits")
        order = np.argsort(-longest)  # the longest first, so that each pass takes the first rows only
        self._place = {runs[run]: place for place, run in enumerate(order)}
        self._lengths = lengths[order]
        begins, longest, shortest = text.begins[:, runs].T[order], longest[order], lengths.min(axis=1)[order]
        value = np.zeros(begins.shape, dtype=np.int64)
        last = len(text.block) - 1
        for digit in range(int(longest[0])):
            num = int((longest > digit).sum())
            found = text.block[np.minimum(begins[:num] + digit, last)] + value[:num] * 10
            found -= 48
            is_even = digit < int(shortest[:num].min())
            value[:num] = found if is_even else np.where(digit < self._lengths[:num], found, value[:num])
        self._values = value.astype(np.float64)

    def integer(self, run: int) -> Floats:
        values: Floats = self._values[self._place[run]]
        return values

    def length(self, run: int) -> Places:
        lengths: Places = self._lengths[self._place[run]]
        return lengths

    def number(self, runs: _Number) -> tuple[Floats, Floats]:
        """The values, and half of the last digit of each. ValueError if one is too long to be exact."""
        value, num_digits = self.integer(runs.whole[0]), self.length(runs.whole[0])
        for run in runs.whole[1:]:
            value, num_digits = value * 1000.0 + self.integer(run), num_digits + self.length(run)
        if runs.fraction is None:
            return value, np.full(len(value), 0.5)
        places = self.length(runs.fraction)
        if int((num_digits + places).max()) > _MAX_DIGITS:
            raise ValueError("too many digits")
        # Both are exact, so the quotient is the double nearest to the decimal number, as `float` gives it.
        scale = _POWERS[places]
        return (value * scale + self.integer(runs.fraction)) / scale, 0.5 / scale


_POWERS: Floats = np.array([10.0**power for power in range(_MAX_DIGITS + 2)])


class ColumnReader:
    def __init__(
        self, line: bytes, anchor: bytes, numbers: dict[str, _Number], moment: tuple[int, dict[str, int]] | None
    ) -> None:
        self.anchor = anchor
        self._line, self._literal = line + b"\n", re.compile(re.escape(anchor))
        self._numbers, self._moment = numbers, moment
        self._skeleton = self._line.translate(None, _REMOVED)
        self._tight = self._line.translate(None, _DIGITS)
        runs = [match.span() for match in _RUN.finditer(self._line)]
        self._num_runs = len(runs)
        self._offsets = _offsets(self._line, [begin for begin, _ in runs], _REMOVED)
        self._tight_offsets = _offsets(self._line, [begin for begin, _ in runs], _DIGITS)
        fractions = [number.fraction for number in numbers.values() if number.fraction is not None]
        more = [run for number in numbers.values() for run in number.whole[1:]]
        self._joined = sorted({*fractions, *more})
        """Runs that must follow the one before with a single character between."""
        wanted = {run for number in numbers.values() for run in (*number.whole, number.fraction) if run is not None}
        if moment is not None:
            wanted |= {moment[0], moment[0] + 1, moment[0] + 2, *moment[1].values()}
        self._wanted = tuple(sorted(wanted))

    @classmethod
    def of(cls, line: bytes, probe: Probe) -> ColumnReader | None:
        """None if the lines of this probe cannot be read as columns."""
        spans = find_spans(line, probe)
        if probe.read is not read_step or not spans or b"\r" in line:
            return None
        wanted = {name: span for name, span in spans.items() if name not in _IGNORED}
        if not set(wanted) <= {*_PLAIN, *DURATIONS, _MEMORY}:
            return None
        runs = [match.span() for match in _RUN.finditer(line)]
        numbers = {name: _find_number(line, span, runs) for name, span in wanted.items()}
        known = {name: number for name, number in numbers.items() if number is not None}
        moment = _find_moment(line, runs)
        if len(known) < len(numbers) or moment is False:
            return None
        return cls(line, probe.anchor, known, None if moment is True else moment)

    def is_like(self, other: ColumnReader) -> bool:
        return self._skeleton == other._skeleton and np.array_equal(self._offsets, other._offsets)

    def may_contain(self, anchor: bytes) -> bool:
        """Whether a line that matches the template can contain the literal."""
        return anchor.translate(None, _REMOVED) in self._skeleton

    def read(self, block: bytes, first: int, last: int) -> StepRows | None:
        """None if a line with the literal does not match the template, or the part is too long."""
        first_line = block[first : block.find(b"\n", first, last) + 1]
        if first_line.translate(None, _REMOVED) == self._skeleton:
            # Probably all lines are alike.
            found = self._find_runs(block[first:last]) if last - first <= _MAX_PART_BYTES else None
            positions = None
        else:
            text, positions = self._select(block, first, last)
            found = self._find_runs(text)
        if found is None:
            return None
        try:
            digits = _Digits(found, self._wanted)
            rows = self._to_rows(digits, len(found.begins))
            memory = digits.number(self._numbers[_MEMORY])[0] if _MEMORY in self._numbers else None
        except ValueError:  # too many digits, or not a date
            return None
        is_whole = positions is None
        if positions is None:
            ends = np.flatnonzero(found.block == 10)
            positions = np.concatenate(([0], ends[:-1] + 1)) + first
        peak = int(memory.max() * 2**20) if memory is not None and 0 < memory.max() < 1e9 else None
        return StepRows(rows=rows, positions=positions, peak_memory_bytes=peak, is_whole=is_whole)

    def _select(self, block: bytes, first: int, last: int) -> tuple[bytes, NDArray[np.int64]]:
        """The lines with the literal, and where they begin."""
        lines, positions, end = [], [], first
        find, rfind = block.find, block.rfind
        for hit in self._literal.finditer(block, first, last):
            position = hit.start()
            if position < end:
                continue
            begin = max(rfind(b"\n", first, position) + 1, first)
            end = find(b"\n", position, last) + 1
            if end <= 0:
                return b"", np.empty(0, dtype=np.int64)
            lines.append(block[begin:end])
            positions.append(begin)
        return b"".join(lines), np.array(positions, dtype=np.int64)

    def _find_runs(self, text: bytes) -> _Text | None:
        """None unless the text is the template again and again."""
        tight = text.translate(None, _DIGITS)
        num, rest = divmod(len(tight), len(self._tight))
        is_tight = rest == 0 and tight == self._tight * num
        if not is_tight:
            stripped = tight.translate(None, b" ")
            num, rest = divmod(len(stripped), len(self._skeleton))
            if rest or stripped != self._skeleton * num:
                return None
        if not num:
            return None
        block = np.frombuffer(text, dtype=np.uint8)
        is_digit = (block - 48) < 10  # unsigned: other characters wrap around
        edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
        if is_digit[0]:
            edges = np.concatenate(([0], edges))
        if len(edges) != 2 * num * self._num_runs:
            return None
        found = _Text(block=block, begins=edges[0::2].reshape(num, -1), ends=edges[1::2].reshape(num, -1))
        return found if self._is_in_place(found, is_digit, is_tight=is_tight) else None

    def _is_in_place(self, found: _Text, is_digit: NDArray[np.bool_], *, is_tight: bool) -> bool:
        """Whether each run of digits is between the same characters as in the template."""
        num, begins = len(found.begins), found.begins.ravel()
        if is_tight:  # only digits were removed: those of the runs before
            lengths = (found.ends - found.begins).ravel()
            removed = np.cumsum(lengths) - lengths
        else:
            # From bytes to 32 bits is the fastest sum that numpy has.
            removed = np.cumsum((is_digit | (found.block == 32)).view(np.uint8), dtype=np.uint32)[begins] - 1
        offsets, length = (self._tight_offsets, len(self._tight)) if is_tight else (self._offsets, len(self._skeleton))
        wanted = np.arange(num)[:, np.newaxis] * length + offsets
        if not np.array_equal((begins - removed).reshape(num, -1), wanted):
            return False
        return all((found.begins[:, run] == found.ends[:, run - 1] + 1).all() for run in self._joined)

    def _to_rows(self, digits: _Digits, num: int) -> Rows:
        rows = np.full((num, len(FIELDS)), np.nan)
        rows[:, 0] = 0.0
        for name, runs in self._numbers.items():
            value, half = digits.number(runs)
            if name in _PLAIN:
                rows[:, _COLUMN[name]] = value
            elif name in DURATIONS:
                _add_duration(rows, name, value, half)
        speeds = rows[:, [_COLUMN[name] for name in ("seconds", "rate", "mean_s", "total_s")]]
        if np.isnan(speeds).all(axis=1).any():
            raise ValueError("a line without a speed is not a record")
        if self._moment is not None:
            rows[:, _COLUMN["time_s"]] = _times(digits, *self._moment)
        return rows


def _add_duration(rows: Rows, name: str, value: Floats, half: Floats) -> None:
    """As `dialect.read_step` does for one line."""
    duration = DURATIONS[name]
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = half / value
        converted = value * duration.factor
        converted = 1 / converted if duration.is_inverse else converted
    is_known = value > 0
    rows[is_known, _COLUMN[duration.field]] = converted[is_known]
    if duration.field in ("seconds", "rate"):
        column = rows[:, _COLUMN["half_digit"]]
        column[is_known] = np.fmin(column[is_known], np.minimum(relative[is_known], 1.0))
    else:
        rows[is_known, _COLUMN["total_half_digit"]] = (relative * converted)[is_known]


def _offsets(line: bytes, begins: list[int], removed: bytes) -> Places:
    """Where each run of digits is in the line without the removed characters."""
    return np.array([len(line[:begin].translate(None, removed)) for begin in begins], dtype=np.intp)


def _find_number(line: bytes, span: tuple[int, int], runs: list[tuple[int, int]]) -> _Number | None:
    """None for a number with a sign or an exponent."""
    text = line[slice(*span)]
    inside = [place for place, run in enumerate(runs) if span[0] <= run[0] and run[1] <= span[1]]
    if not _PLAIN_NUMBER.fullmatch(text) or not inside:
        return None
    has_fraction = b"." in text
    return _Number(whole=tuple(inside[:-1] if has_fraction else inside), fraction=inside[-1] if has_fraction else None)


def _find_moment(line: bytes, runs: list[tuple[int, int]]) -> tuple[int, dict[str, int]] | bool:
    """Runs of the time stamp: the one of its year, and those of the other parts. True if there is none."""
    moment = TIME.search(line, 0, TIME_WITHIN)
    if moment is None:
        return True
    if moment["year"] is None:
        return False  # a date without a year, or a time alone, is read line by line
    places = {begin: place for place, (begin, _) in enumerate(runs)}
    names = [name for name in _TIME_PARTS if moment[name] is not None]
    return places[moment.start("year")], {name: places[moment.start(name)] for name in names}


def _times(found: _Digits, year: int, parts: dict[str, int]) -> Floats:
    numbers = [found.integer(year + place).astype(np.int64) for place in range(3)]
    days, place = np.unique(numbers[0] * 10_000 + numbers[1] * 100 + numbers[2], return_inverse=True)
    known = [days_of(int(day) // 10_000, int(day) // 100 % 100, int(day) % 100) for day in days]
    if None in known:
        raise ValueError("not a date")
    whole: Floats = np.array(known, dtype=np.float64)[place] * 86400.0
    hours, minutes, seconds = (found.integer(parts[name]) for name in _TIME_PARTS[:3])
    whole = whole + hours * 3600 + minutes * 60 + seconds
    if "fraction" in parts:
        run = parts["fraction"]
        whole = whole + found.integer(run) / _POWERS[found.length(run)]
    return whole
