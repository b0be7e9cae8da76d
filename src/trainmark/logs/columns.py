"""Read the step lines of a block as rows of numbers, without one object per line.

A template is made from one line. If every line of the block that contains the dialect's literal matches the template
from end to end, the numbers are converted column by column. Otherwise the block is read line by line. The records are
the same either way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.dialect import Probe, read_step
from trainmark.logs.noise import TIME, TIME_WITHIN, days_of
from trainmark.logs.template import find_spans, make_template

Rows = NDArray[np.float64]
FIELDS = ("is_trace", "step", "epoch", "time_s", "seconds", "rate", "samples", "loss")
"""The columns of `Rows`, in the order of the spool; NaN means absent."""

_TIME_GROUPS = ("day", "hours", "minutes", "seconds_of_minute", "fraction")
_NUMBERS = ("step", "epoch", "seconds", "rate", "samples", "loss")
_IGNORED = ("unit", "lr", "device_samples")
_MAX_DIGITS = 15
"""A double cannot hold more; such lines are read one by one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StepRows:
    rows: Rows
    positions: NDArray[np.int64]
    """Where each line begins in the block."""


class ColumnReader:
    def __init__(self, pattern: re.Pattern[bytes], anchor: bytes) -> None:
        self._pattern, self._anchor = pattern, re.compile(re.escape(anchor))
        self._names = tuple(pattern.groupindex)

    @classmethod
    def of(cls, line: bytes, probe: Probe) -> ColumnReader | None:
        """None if the lines of this probe cannot be read as columns."""
        spans = find_spans(line, probe)
        if probe.read is not read_step or spans is None or not set(spans) <= {*_NUMBERS, *_IGNORED}:
            return None
        moment = TIME.search(line, 0, TIME_WITHIN)
        if moment is not None:
            parts = zip(_TIME_GROUPS, range(1, 6), strict=True)
            spans |= {name: moment.span(group) for name, group in parts if moment[group] is not None}
        template = make_template(line, spans, end=rb"(?=\r?\n)")
        return cls(template, probe.anchor) if template is not None else None

    def read(self, block: bytes, first: int, last: int) -> StepRows | None:
        """None if a line with the literal does not match the template."""
        values: list[tuple[bytes, ...]] = []
        positions: list[int] = []
        end = first
        match, rfind = self._pattern.match, block.rfind
        for hit in self._anchor.finditer(block, first, last):
            position = hit.start()
            if position < end:
                continue
            begin = max(rfind(b"\n", first, position) + 1, first)
            found = match(block, begin, last)
            if found is None or found.end() < position:
                return None
            end = found.end()
            values.append(found.groups())
            positions.append(begin)
        if not values:
            return None
        columns = dict(zip(self._names, zip(*values, strict=True), strict=True))
        try:
            return StepRows(rows=_to_rows(columns, len(values)), positions=np.array(positions))
        except ValueError:  # a number that numpy cannot parse, or one with too many digits
            return None


def _to_rows(columns: dict[str, tuple[bytes, ...]], num: int) -> Rows:
    rows = np.full((num, len(FIELDS)), np.nan)
    rows[:, 0] = 0.0
    for name in _NUMBERS:
        if name in columns:
            rows[:, FIELDS.index(name)] = _numbers(columns[name])
    for name in ("seconds", "rate"):
        column = rows[:, FIELDS.index(name)]
        column[~(column > 0)] = np.nan
    if np.isnan(rows[:, [FIELDS.index("seconds"), FIELDS.index("rate")]]).all(axis=1).any():
        raise ValueError("a line without a speed is not a record")
    if "day" in columns:
        rows[:, FIELDS.index("time_s")] = _times(columns)
    return rows


def _numbers(texts: tuple[bytes, ...]) -> NDArray[np.float64]:
    column = np.array(texts)
    if column.dtype.itemsize > _MAX_DIGITS:
        raise ValueError("too long")
    values: NDArray[np.float64] = column.astype(np.float64)
    if not (np.abs(values) < 1e300).all():
        raise ValueError("not a finite number")
    return values


def _times(columns: dict[str, tuple[bytes, ...]]) -> NDArray[np.float64]:
    known = {day: days_of(day) for day in set(columns["day"])}
    if None in known.values():
        raise ValueError("not a date")
    days = np.array([known[day] for day in columns["day"]], dtype=np.float64)
    hours, minutes, seconds = (_numbers(columns[name]) for name in _TIME_GROUPS[1:4])
    whole: NDArray[np.float64] = days * 86400.0 + hours * 3600 + minutes * 60 + seconds
    if "fraction" in columns:
        whole += _numbers(tuple(b"." + text for text in columns["fraction"]))
    return whole
