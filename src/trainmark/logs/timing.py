"""How long the steps of each record took: from the printed value, from differences, or from time stamps.

A value of one step, or a mean of the steps since the previous line, is taken as printed. A mean since the start is not
a record: the last ones hardly move when the speed changes. With the number of steps it is a running total, and the
difference of two totals is exact up to the printed digits. A median or a moving average is no mean at all, so its
records do not add up to the time that passed; it is used only if the log has neither running totals nor time stamps.

A difference of two rounded totals may be mostly rounding error. Records are therefore joined until the error is at most
`TOLERANCE` of the difference: the last one of a group has the seconds of all its steps, the others have none.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.columns import FIELDS, Rows
from trainmark.logs.dialect import Meaning

Floats = NDArray[np.float64]

TOLERANCE = 0.05
_TOLERANCE_AT_END = 0.15
"""For what is left at the end of an epoch, which nothing can be joined with."""
_MAX_FIRST = 1000.0
_COLUMN = {name: place for place, name in enumerate(FIELDS)}


class Basis(StrEnum):
    """What the seconds of the records rest on."""

    PRINTED = "printed"
    DIFFERENCES = "differences"
    """Of running totals, or of means since the start."""
    CLOCK = "clock"
    """Of the time stamps of the lines."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One row per record."""

    seconds: Floats
    """Of all steps that the record covers; NaN if unknown."""
    num_steps: Floats
    rounding_s: Floats
    """Half of the last printed digit, in seconds of this record. Of totals: its share of that of the sum."""
    is_per_sample: bool = False
    """Seconds and rounding are those of one sample per step: the log prints rates and no durations."""


def choose_basis(
    meaning: Meaning, *, has_totals: bool, has_times: bool, has_steps: bool, prints_every_step: bool
) -> Basis:
    """What to use, once the whole log is known."""
    if meaning.is_since_start:
        return Basis.DIFFERENCES if has_steps else Basis.PRINTED
    is_partial = meaning.is_no_mean or (meaning is Meaning.STEP and not prints_every_step)
    if is_partial and has_totals and has_steps:
        return Basis.DIFFERENCES
    return Basis.CLOCK if meaning.is_no_mean and has_times and has_steps else Basis.PRINTED


def column(rows: Rows, name: str) -> Floats:
    return rows[:, _COLUMN[name]]


def printed_values(rows: Rows) -> dict[str, Floats]:
    """Seconds of an iteration, rate and samples as printed; a mean since the start where that is all there is."""
    seconds = column(rows, "seconds")
    seconds = np.where(np.isnan(seconds) & np.isnan(column(rows, "rate")), column(rows, "mean_s"), seconds)
    return {"seconds": seconds, "rate": column(rows, "rate"), "samples": column(rows, "samples")}


class Printed:
    """Values as printed; a mean since the previous line covers all steps since then."""

    def __init__(self, *, covers_interval: bool, first: float | None = None) -> None:
        """`first`: upper limit for the first record, if the next records are known."""
        self._covers_interval = covers_interval
        self._first = first if first is not None else _MAX_FIRST
        self._step: float | None = None
        self._epoch = np.nan
        self._usual = 1.0

    def read(self, rows: Rows) -> Timed:
        num_steps = self._count(column(rows, "step"), column(rows, "epoch"))
        seconds = num_steps * column(rows, "seconds")
        return Timed(
            seconds=seconds, num_steps=num_steps, rounding_s=np.nan_to_num(column(rows, "half_digit")) * seconds
        )

    def _count(self, steps: Floats, epochs: Floats) -> Floats:
        """Those since the previous record of the same epoch."""
        counts = np.ones(len(steps))
        known = np.flatnonzero(~np.isnan(steps))
        if not self._covers_interval or not len(known):
            return counts
        numbers, epochs = steps[known], np.nan_to_num(epochs[known], nan=-1.0)
        before = np.concatenate(([np.nan if self._step is None else self._step], numbers[:-1]))
        is_same = epochs == np.concatenate(([np.nan_to_num(self._epoch, nan=-1.0)], epochs[:-1]))
        since = numbers - before
        found = np.where(since > 0, since, np.where((since < 0) | ~is_same, np.maximum(numbers, 1.0), np.nan))
        if self._step is None:
            # A resumed run starts late: its first record covers no more than `first`.
            found[0] = min(max(numbers[0], 1.0), self._first)
        # The same step again covers as many as the record before.
        found = _fill_forward(found, self._usual)
        self._step, self._epoch, self._usual = float(numbers[-1]), float(epochs[-1]), float(found[-1])
        counts[known] = found
        return counts


def _fill_forward(values: Floats, first: float) -> Floats:
    if not np.isnan(values).any():
        return values
    values = np.concatenate(([first], values))
    places = np.where(np.isnan(values), 0, np.arange(len(values)))
    return values[np.maximum.accumulate(places)][1:]


@dataclass(kw_only=True)
class _Anchor:
    """Where the current difference begins."""

    step: float
    total: float
    half: float
    """Half of the last digit of the total."""


@dataclass(kw_only=True)
class Differences:
    """Differences of running totals, or of time stamps, within one stretch of increasing steps."""

    meaning: Meaning
    is_clock: bool = False
    first_step: int = 1
    pauses: Sequence[float] = ()
    """Steps after which the program evaluated: a time stamp after it includes that."""
    first: float | None = None
    """Usual number of steps of a record; see `Printed`."""
    _anchor: _Anchor | None = None
    _last: Floats = field(default_factory=lambda: np.full(len(FIELDS), np.nan))
    _offset: float = 0.0
    _is_per_sample: bool = False
    _pauses: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._pauses = np.unique(np.array(self.pauses, dtype=np.float64))

    def read(self, rows: Rows, *, is_end: bool = True) -> Timed:
        """`is_end`: no rows follow."""
        num = len(rows)
        made = Timed(seconds=np.full(num, np.nan), num_steps=np.ones(num), rounding_s=np.zeros(num))
        begins = self._find_begins(rows)
        edges = [*begins, num] if len(begins) and begins[0] == 0 else [0, *begins, num]
        for begin, end in itertools.pairwise(edges):
            if begin in begins:
                self._anchor = None
            self._read_stretch(rows[begin:end], made, begin, is_end=is_end or end < num)
        if num:
            self._last = np.array(rows[-1])
        return replace(made, is_per_sample=self._is_per_sample)

    def _find_begins(self, rows: Rows) -> list[int]:
        """Rows that begin a new stretch: an epoch, a restart, a clock set back, the first one after an evaluation."""
        both = np.concatenate((self._last[np.newaxis], rows))
        steps, epochs, clock = (
            column(both, name) for name in ("step", "epoch", "time_s" if self.is_clock else "total_s")
        )
        before, steps = steps[:-1], steps[1:]
        epochs_before, epochs = epochs[:-1], epochs[1:]
        is_new = ~(steps > before) | (clock[1:] < clock[:-1])
        if self.meaning is not Meaning.RUN:
            is_new |= ~((epochs == epochs_before) | (np.isnan(epochs) & np.isnan(epochs_before)))
        if self.is_clock and len(self._pauses):
            is_new |= np.searchsorted(self._pauses, steps) > np.searchsorted(self._pauses, before)
        return [int(place) for place in np.flatnonzero(is_new)]

    def _read_stretch(self, rows: Rows, made: Timed, begin: int, *, is_end: bool) -> None:
        steps, (totals, halves) = column(rows, "step"), self._totals(rows)
        usable = np.flatnonzero(~np.isnan(totals) & ~np.isnan(steps))
        if not len(usable):
            return
        steps, totals, halves = steps[usable], totals[usable], halves[usable]
        start = 0
        is_fresh = self._anchor is None
        if self._anchor is None and self.is_clock:
            self._anchor = _Anchor(step=float(steps[0]), total=float(totals[0]), half=float(halves[0]))
            start = 1
        elif self._anchor is None:
            self._anchor = _Anchor(step=self._offset, total=0.0, half=0.0)
        places = np.array(self._find_anchors(totals, halves, start, is_end=is_end, is_fresh=is_fresh), dtype=np.intp)
        if not len(places):
            return
        anchor = self._anchor
        ends = [np.concatenate(([first], values[places])) for first, values in (
            (anchor.step, steps), (anchor.total, totals), (anchor.half, halves)
        )]  # fmt: skip
        rows_of = begin + usable[places]
        made.num_steps[rows_of] = np.diff(ends[0])
        made.seconds[rows_of] = np.diff(ends[1])
        if not self.is_clock:
            made.rounding_s[rows_of] = np.maximum(np.diff(ends[2]), 0.0)
        elif is_fresh:
            made.rounding_s[rows_of[0]] = 2 * ends[2][0]  # of the first and the last stamp; those between cancel
        self._anchor = _Anchor(step=float(ends[0][-1]), total=float(ends[1][-1]), half=float(ends[2][-1]))

    def _totals(self, rows: Rows) -> tuple[Floats, Floats]:
        """Seconds since the start at each row, and half of their last digit."""
        if self.is_clock:
            times = column(rows, "time_s")
            is_whole = bool((np.nan_to_num(times) % 1.0 == 0).all())
            return times, np.full(len(rows), 0.5 if is_whole else 5e-4)
        totals, means = column(rows, "total_s"), column(rows, "mean_s")
        halves = column(rows, "total_half_digit")
        if np.isnan(means).all() and np.isnan(totals).all():
            means = column(rows, "seconds")
            self._is_per_sample = bool(np.isnan(means).all())
            if self._is_per_sample:
                means = 1.0 / column(rows, "rate")
            halves = means * np.nan_to_num(column(rows, "half_digit"))
        if self._anchor is None:
            self._offset = self._find_offset(column(rows, "step"))
        counts = column(rows, "step") - self._offset
        use_totals = ~np.isnan(totals)
        return np.where(use_totals, totals, means * counts), np.where(use_totals, halves, halves * counts)

    def _find_offset(self, steps: Floats) -> float:
        """The number of the last step before the mean began: a resumed run counts on, its mean begins anew."""
        before_first = float(self.first_step - 1)
        known = steps[~np.isnan(steps)][:2]
        if len(known) < 1:
            return before_first
        usual = float(known[1] - known[0]) if len(known) > 1 else self.first
        is_resumed = usual is not None and known[0] - before_first > max(2 * usual, 2.0)
        return float(known[0] - usual) if is_resumed and usual is not None else before_first

    def _find_anchors(self, totals: Floats, halves: Floats, start: int, *, is_end: bool, is_fresh: bool) -> list[int]:
        """Rows at which a difference ends, so that each is large compared with its rounding error."""
        assert self._anchor is not None
        lower = totals - halves / TOLERANCE
        upper = totals + halves / TOLERANCE
        limit = self._anchor.total + self._anchor.half / TOLERANCE
        rest = lower[start:]
        if len(rest) and rest[0] >= limit and (rest[1:] >= upper[start:-1]).all():
            return list(range(start, len(totals)))
        reached = np.maximum.accumulate(lower)
        found: list[int] = []
        place = start
        while place < len(totals):
            place = max(place, int(np.searchsorted(reached[place:], limit)) + place)
            # The running maximum may have been reached earlier; the row itself must qualify.
            while place < len(totals) and lower[place] < limit:
                place += 1
            if place >= len(totals):
                break
            found.append(place)
            limit = upper[place]
            place += 1
        last = len(totals) - 1
        if is_end and last >= start and (not found or found[-1] < last):
            before = (totals[found[-1]], halves[found[-1]]) if found else (self._anchor.total, self._anchor.half)
            difference, error = totals[last] - before[0], halves[last] + before[1]
            allowed = 1.0 if is_fresh and not found else _TOLERANCE_AT_END
            if difference > 0 and error <= allowed * difference:
                found.append(last)
        return found


def first_interval(steps_and_epochs: Sequence[tuple[float, float]]) -> float | None:
    """Steps between the first two records of an epoch; a resumed run starts late but prints as often as before."""
    if not steps_and_epochs:
        return None
    first = steps_and_epochs[0]
    following = next((place for place in steps_and_epochs if not _is_same(place, first)), None)
    if following is None or following[0] <= first[0]:
        return None
    is_same_epoch = following[1] == first[1] or (np.isnan(following[1]) and np.isnan(first[1]))
    return following[0] - first[0] if is_same_epoch else None


def _is_same(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] == other[0] and (one[1] == other[1] or (np.isnan(one[1]) and np.isnan(other[1])))
