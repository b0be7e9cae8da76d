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
_IGNORED = ("unit", "lr", "device_samples", "of")
_TIME_PARTS = ("hours", "minutes", "seconds_of_minute", "fraction")
_MAX_DIGITS = 15
"""A double cannot hold more; such lines are read one by one."""
_DIGITS, _REMOVED = b"0123456789", b"0123456789 "
_RUN = re.compile(rb"\d+")
_PLAIN_NUMBER = re.compile(rb"\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True, eq=False)
class StepRows:
    rows: Rows
    positions: NDArray[np.int64]
    """Where each line begins in the block."""


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

    def integer(self, run: int) -> Floats:
        begins, lengths = self.begins[:, run], self.ends[:, run] - self.begins[:, run]
        longest, is_even = int(lengths.max()), int(lengths.min()) == int(lengths.max())
        value = np.zeros(len(begins), dtype=np.int64)
        for digit in range(longest):
            found = value * 10 + (self.block[np.minimum(begins + digit, len(self.block) - 1)] - 48)
            value = found if is_even else np.where(digit < lengths, found, value)
        return value.astype(np.float64)

    def number(self, runs: _Number) -> tuple[Floats, Floats]:
        """The values, and half of the last digit of each. ValueError if one is too long to be exact."""
        value = self.integer(runs.whole[0])
        for run in runs.whole[1:]:
            value = value * 1000.0 + self.integer(run)
        num_digits = sum((self.ends[:, run] - self.begins[:, run] for run in runs.whole), np.zeros(1, dtype=np.intp))
        if runs.fraction is None:
            self._check(num_digits)
            return value, np.full(len(value), 0.5)
        places = self.ends[:, runs.fraction] - self.begins[:, runs.fraction]
        self._check(num_digits + places)
        # Both are exact, so the quotient is the double nearest to the decimal number, as `float` gives it.
        scale = _POWERS[places]
        return (value * scale + self.integer(runs.fraction)) / scale, 0.5 / scale

    def _check(self, num_digits: Places) -> None:
        if int(num_digits.max()) > _MAX_DIGITS:
            raise ValueError("too many digits")


_POWERS = 10.0 ** np.arange(_MAX_DIGITS + 2)


class ColumnReader:
    def __init__(
        self, line: bytes, anchor: bytes, numbers: dict[str, _Number], moment: tuple[int, dict[str, int]] | None
    ) -> None:
        self._line, self._anchor = line + b"\n", re.compile(re.escape(anchor))
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

    @classmethod
    def of(cls, line: bytes, probe: Probe) -> ColumnReader | None:
        """None if the lines of this probe cannot be read as columns."""
        spans = find_spans(line, probe)
        if probe.read is not read_step or not spans or b"\r" in line:
            return None
        wanted = {name: span for name, span in spans.items() if name not in _IGNORED}
        if not set(wanted) <= {*_PLAIN, *DURATIONS}:
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

    def read(self, block: bytes, first: int, last: int) -> StepRows | None:
        """None if a line with the literal does not match the template."""
        text, positions = self._select(block, first, last)
        if text is None:
            return None
        found = self._find_runs(text)
        if found is None:
            return None
        try:
            rows = self._to_rows(found)
        except ValueError:  # too many digits, or not a date
            return None
        if positions is None:
            ends = np.flatnonzero(found.block == 10)
            positions = np.concatenate(([0], ends[:-1] + 1)) + first
        return StepRows(rows=rows, positions=positions)

    def _select(self, block: bytes, first: int, last: int) -> tuple[bytes | None, NDArray[np.int64] | None]:
        """The lines with the literal, and where they begin; no positions if these are all lines."""
        text = block[first:last]
        num_lines = text.count(b"\n")
        if not text.endswith(b"\n"):
            return None, None
        if len(text.translate(None, _REMOVED)) == num_lines * len(self._skeleton):
            return text, None
        lines, positions, end = [], [], first
        find, rfind = block.find, block.rfind
        for hit in self._anchor.finditer(block, first, last):
            position = hit.start()
            if position < end:
                continue
            begin = max(rfind(b"\n", first, position) + 1, first)
            end = find(b"\n", position, last) + 1
            lines.append(block[begin:end])
            positions.append(begin)
        return b"".join(lines) or None, np.array(positions, dtype=np.int64)

    def _find_runs(self, text: bytes) -> _Text | None:
        num = text.count(b"\n")
        tight = text.translate(None, _DIGITS)
        is_tight = len(tight) == num * len(self._tight) and tight == self._tight * num
        if not is_tight and text.translate(None, _REMOVED) != self._skeleton * num:
            return None
        block = np.frombuffer(text, dtype=np.uint8)
        is_digit = (block - 48) < 10  # unsigned: other characters wrap around
        edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
        if is_digit[0]:
            edges = np.concatenate(([0], edges))
        if len(edges) != 2 * num * self._num_runs:
            return None
        begins, ends = edges[0::2].reshape(num, -1), edges[1::2].reshape(num, -1)
        found = _Text(block=block, begins=begins, ends=ends)
        return found if self._is_in_place(found, is_digit, is_tight=is_tight) else None

    def _is_in_place(self, found: _Text, is_digit: NDArray[np.bool_], *, is_tight: bool) -> bool:
        """Whether each run of digits is between the same characters as in the template."""
        num = len(found.begins)
        if is_tight:
            lengths = found.ends - found.begins
            before = np.cumsum(lengths.ravel()) - lengths.ravel()
            places = found.begins.ravel() - before
            expected = self._tight_offsets, len(self._tight)
        else:
            removed = np.cumsum(is_digit | (found.block == 32), dtype=np.int32)
            places = found.begins.ravel() - removed[found.begins.ravel()] + 1
            expected = self._offsets, len(self._skeleton)
        wanted = np.arange(num)[:, np.newaxis] * expected[1] + expected[0]
        if not np.array_equal(places.reshape(num, -1), wanted):
            return False
        return all((found.begins[:, run] == found.ends[:, run - 1] + 1).all() for run in self._joined)

    def _to_rows(self, found: _Text) -> Rows:
        rows = np.full((len(found.begins), len(FIELDS)), np.nan)
        rows[:, 0] = 0.0
        for name, runs in self._numbers.items():
            value, half = found.number(runs)
            if name in _PLAIN:
                rows[:, _COLUMN[name]] = value
            else:
                _add_duration(rows, name, value, half)
        speeds = rows[:, [_COLUMN[name] for name in ("seconds", "rate", "mean_s", "total_s")]]
        if np.isnan(speeds).all(axis=1).any():
            raise ValueError("a line without a speed is not a record")
        if self._moment is not None:
            rows[:, _COLUMN["time_s"]] = _times(found, *self._moment)
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


def _times(found: _Text, year: int, parts: dict[str, int]) -> Floats:
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
        whole = whole + found.integer(run) / _POWERS[found.ends[:, run] - found.begins[:, run]]
    return whole
