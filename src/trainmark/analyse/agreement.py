"""Whether the witnesses of a command agree: marks, the observer, what it printed, and the clock of the computer.

All are compared over the same time, the steady state of the one that the result rests on. The clock judges the times,
not the counts: it has the samples of that witness, over the time that passed by the computer's clock meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.throughput import estimate_throughput
from trainmark.messages.commands import witnesses_disagree
from trainmark.messages.message import Message

_MOST_APART = 0.02
_MIN_RECORDS = 2
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Witness:
    """Records in order; each ends at `ends_s` and took `seconds`."""

    name: str
    """`mark`, `observer`, `log` or `clock`."""
    unit: str
    """What the result counts if it rests on this witness."""
    seconds: Floats
    counts: Mapping[str, Floats]
    """By unit; a witness may count several things."""
    ends_s: Floats
    """Seconds since 1970; NaN where unknown, as in a log whose lines came together."""
    wall_s: Floats | None = field(default=None)
    """From the end of the record before by the clock of the computer; None: from `ends_s`."""

    def rate(self, unit: str, begin_s: float, end_s: float) -> float | None:
        """Of the records that lie within the time; None if there are too few, or if it does not count this."""
        if unit not in self.counts:
            return None
        ends = _fill(self.ends_s)
        # The times of a log are what is to be judged: where a record begins is known from the line before it.
        begins = np.append(-np.inf, ends[:-1]) if self.wall_s is None else ends - self.wall_s
        slack = 0.5 * float(np.median(np.diff(ends))) if len(ends) > 1 else 0.0
        inside = (begins >= begin_s - slack) & (ends <= end_s + slack) & np.isfinite(self.counts[unit])
        if inside.sum() < _MIN_RECORDS:
            return None
        return float(self.counts[unit][inside].sum() / self.seconds[inside].sum())


def _fill(ends_s: Floats) -> Floats:
    """Lines that came together have the time of the last one."""
    known = np.flatnonzero(np.isfinite(ends_s))
    if not len(known):
        return ends_s
    following = np.searchsorted(known, np.arange(len(ends_s)))
    return ends_s[known[np.minimum(following, len(known) - 1)]]


def compare(witnesses: Mapping[str, Witness], chosen: str) -> tuple[dict[str, float | str | None], Message | None]:
    """Throughput by each witness, with its unit, and a warning if two of them are more than 2% apart."""
    own = witnesses[chosen]
    steady = _steady_part(own)
    if steady is None:
        return {}, None
    begin_s, end_s = steady
    unit = own.unit
    others = [witness for name, witness in witnesses.items() if name != chosen]
    if others and not any(unit in witness.counts for witness in others) and "iterations" in own.counts:
        unit = "iterations"
    values: dict[str, float | None] = {name: witness.rate(unit, begin_s, end_s) for name, witness in witnesses.items()}
    values["clock"] = _by_clock(own, unit, begin_s, end_s)
    known = [value for value in values.values() if value is not None and value > 0]
    apart = max(known) / min(known) - 1 if known else 0.0
    warning = None
    if apart > _MOST_APART:
        told = {name: values.get(name) for name in ("observer", "mark", "log", "clock")}
        warning = witnesses_disagree(witness=chosen, apart=apart, unit=unit, **told)
    return {**values, "unit": unit}, warning


def _steady_part(witness: Witness) -> tuple[float, float] | None:
    """When the steady state begins and ends."""
    counts, ends = witness.counts[witness.unit], _fill(witness.ends_s)
    usable = np.isfinite(counts) & (counts > 0) & np.isfinite(ends)
    if usable.sum() < _MIN_RECORDS:
        return None
    first = estimate_throughput(witness.seconds[usable], counts[usable]).num_warmup_steps
    if witness.wall_s is not None:
        return float(ends[usable][first] - witness.wall_s[usable][first]), float(ends[usable][-1])
    return float(ends[usable][max(first - 1, 0)]), float(ends[usable][-1])


def _by_clock(witness: Witness, unit: str, begin_s: float, end_s: float) -> float | None:
    """Of a log: by the usual ratio of its times to the clock, since an evaluation between two lines is in no record."""
    rate = witness.rate(unit, begin_s, end_s)
    if rate is None:
        return None
    if witness.wall_s is not None:
        inside = (witness.ends_s - witness.wall_s >= begin_s - 1e-3) & np.isfinite(witness.counts[unit])
        wall_s = float(witness.wall_s[inside].sum())
        return float(witness.counts[unit][inside].sum()) / wall_s if wall_s > 0 else None
    anchors = np.flatnonzero(np.isfinite(witness.ends_s))
    if len(anchors) <= _MIN_RECORDS:
        return None
    totals = np.cumsum(witness.seconds)
    told, passed = np.diff(totals[anchors]), np.diff(witness.ends_s[anchors])
    usual = float(np.median(passed / told))
    return rate / usual if usual > 0 else None
