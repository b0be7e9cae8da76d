"""Read the step lines of a block as columns of numbers, without a Python object per line.

A template is one line without its digits and the spaces before them. If the block, or all of its lines with the
dialect's literal, consist of that template again and again, the digits are found with array operations and become
numbers column by column. Otherwise the lines are read one by one. The records are the same either way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.dialect import DURATIONS, Probe, read_step
from trainmark.logs.digit_runs import REMOVED, Digits, Floats, Number, Template
from trainmark.logs.noise import TIME, TIME_WITHIN, days_of, time_of
from trainmark.logs.template import find_spans

Rows = NDArray[np.float64]
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
_MAX_PART_BYTES = 1 << 18
"""Arrays for a larger part do not stay in a core's cache, and each one costs page faults."""
_RUN = re.compile(rb"\d+")
_PLAIN_NUMBER = re.compile(rb"\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True, eq=False)
class StepRows:
    rows: Rows
    positions: NDArray[np.int64]
    """A place of each line in the block, in order."""
    peak_memory_bytes: int | None = None
    is_whole: bool = False
    """Every line of the part is a step."""


class ColumnReader:
    def __init__(
        self, line: bytes, probe: Probe, numbers: dict[str, Number], moment: tuple[int, dict[str, int]] | None
    ) -> None:
        self.anchor = anchor = probe.anchor
        self._literal = re.compile(re.escape(anchor))
        self._numbers, self._moment = numbers, moment
        fractions = [number.fraction for number in numbers.values() if number.fraction is not None]
        more = [run for number in numbers.values() for run in number.whole[1:]]
        groups, time_s = probe.search(line), time_of(line)
        self._template = Template(
            line + b"\n",
            sorted({*fractions, *more}),
            lambda other: probe.search(other[:-1]) == groups and time_of(other[:-1]) == time_s,
        )
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
        return cls(line, probe, known, None if moment is True else moment)

    def is_like(self, other: ColumnReader) -> bool:
        return self._template.fixed == other._template.fixed

    def may_contain(self, anchor: bytes) -> bool:
        """Whether a line that matches the template can contain the literal."""
        return anchor.translate(None, REMOVED) in self._template.skeleton

    def read(self, block: bytes, first: int, last: int) -> StepRows | None:
        """None if a line with the literal does not match the template, or the part is too long."""
        first_line = block[first : block.find(b"\n", first, last) + 1]
        if first_line.translate(None, REMOVED) == self._template.skeleton:
            # Probably all lines are alike.
            found = self._template.find(block[first:last]) if last - first <= _MAX_PART_BYTES else None
            positions = None
        else:
            text, positions = self._select(block, first, last)
            found = self._template.find(text)
        if found is None:
            return None
        try:
            digits = Digits(found, self._wanted)
            rows = self._to_rows(digits, found.begins.shape[1])
            memory = digits.number(self._numbers[_MEMORY])[0] if _MEMORY in self._numbers else None
        except ValueError:  # too many digits, or not a date
            return None
        is_whole = positions is None
        if positions is None:
            positions = found.within_lines() + first
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

    def _to_rows(self, digits: Digits, num: int) -> Rows:
        rows = np.full((len(FIELDS), num), np.nan).T  # column by column in memory, as it is written
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
        converted = value * duration.factor if duration.factor != 1 else value
        converted = 1 / converted if duration.is_inverse else converted
    if value.min() <= 0:
        is_known = value > 0
        relative, converted = (np.where(is_known, found, np.nan) for found in (relative, converted))
        # A line of several: another group may have given it already.
        converted = np.where(is_known, converted, rows[:, _COLUMN[duration.field]])
    rows[:, _COLUMN[duration.field]] = converted
    if duration.field in ("seconds", "rate"):
        column = rows[:, _COLUMN["half_digit"]]
        np.fmin(column, np.minimum(relative, 1.0), out=column)
    else:
        column = rows[:, _COLUMN["total_half_digit"]]
        column[:] = np.where(np.isnan(relative), column, relative * converted)


def _find_number(line: bytes, span: tuple[int, int], runs: list[tuple[int, int]]) -> Number | None:
    """None for a number with a sign or an exponent."""
    text = line[slice(*span)]
    inside = [place for place, run in enumerate(runs) if span[0] <= run[0] and run[1] <= span[1]]
    if not _PLAIN_NUMBER.fullmatch(text) or not inside:
        return None
    has_fraction = b"." in text
    return Number(whole=tuple(inside[:-1] if has_fraction else inside), fraction=inside[-1] if has_fraction else None)


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


def _times(found: Digits, year: int, parts: dict[str, int]) -> Floats:
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
        whole = whole + found.integer(run) / found.power(run)
    return whole
