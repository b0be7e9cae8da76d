"""Write the steps of an imported log as a table: seconds and samples of all devices beside the printed values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trainmark.logs.rate_summary import RateSums
from trainmark.logs.reading import ReadLog
from trainmark.logs.timing import Basis, Differences, Floats, Printed, column, first_interval, printed_values
from trainmark.messages.logs import clock_disagrees
from trainmark.messages.message import Message
from trainmark.runfolder.step_table import StepTableWriter

_MIN_CLOCK_S = 10.0
"""A shorter span is too uncertain, with stamps in whole seconds."""
_MAX_LONGER = 1.5
_MAX_SHORTER = 100.0
"""Time stamps also cover evaluations and checkpoints, so the clock may say much more than the steps, but not less. What
the law `faster-than-clock` finds is left to it; this is for a wrong unit."""


@dataclass(kw_only=True)
class _Sums:
    """Of records that have both seconds and a time stamp, without the first, which began before its stamp."""

    printed_s: float = 0.0
    clock_s: float = 0.0
    last_time_s: float = np.nan

    def add(self, seconds: Floats, times: Floats) -> None:
        before = np.concatenate(([self.last_time_s], times[:-1]))
        since = times - before
        is_known = ~np.isnan(since) & (since >= 0) & ~np.isnan(seconds)
        self.printed_s += float(seconds[is_known].sum())
        self.clock_s += float(since[is_known].sum())
        if len(times):
            self.last_time_s = float(times[-1])


def write_steps(log: ReadLog, path: Path, rates: RateSums) -> list[Message]:
    """Adds the rates to `rates`. Returns the warnings that only the sum of all records can give."""
    gathered, origin = log.gathered, log.gathered.first_time_s or 0.0
    timing = _timing(log)
    sums = _Sums()
    num_left = gathered.spool.num_rows
    with StepTableWriter(path, num_left, _columns(log)) as table:
        for part in gathered.spool.parts():
            num_left -= len(part)
            is_trace = column(part, "is_trace") == 1
            rows = part[~is_trace]
            timed = timing.read(rows) if isinstance(timing, Printed) else timing.read(rows, is_end=num_left == 0)
            made = log.scale.convert(timed=timed, basis=log.basis, **printed_values(rows))
            digits = np.nan_to_num(column(rows, "half_digit")) * made.seconds
            if timed.is_per_sample:
                timed = replace(timed, rounding_s=timed.rounding_s * made.seconds / timed.seconds)
            own = {
                "seconds": made.seconds,
                "samples": made.samples,
                "num_steps": timed.num_steps,
                "rounding_s": digits if log.basis is Basis.PRINTED else timed.rounding_s,
                "rate": made.rates,
            }
            sums.add(made.seconds, column(rows, "time_s"))
            rates.add(made.rates)
            table.write(
                {
                    **{name: _spread(values, is_trace) for name, values in own.items()},
                    "is_trace": column(part, "is_trace"),
                    "step": column(part, "step"),
                    "epoch": column(part, "epoch"),
                    "time_s": column(part, "time_s") - origin,
                    "loss": column(part, "loss"),
                }
            )
    return _compare_with_clock(log, sums)


def _columns(log: ReadLog) -> list[str]:
    """Those that the log has at all, and that do not follow from the others."""
    always = ["seconds", "samples", "rounding_s"]
    used = log.gathered.spool.used
    is_each = log.basis is Basis.PRINTED and log.dialect.covers == "step"
    if not is_each:
        always.append("num_steps")
    if not is_each or "rate" in used:
        always.append("rate")
    return always + [name for name in ("is_trace", "step", "epoch", "time_s", "loss") if name in used]


def _timing(log: ReadLog) -> Printed | Differences:
    first = first_interval([place for place in log.gathered.firsts if place[0] == place[0]])
    if log.basis is Basis.PRINTED:
        covers_interval = log.dialect.covers == "interval"
        return Printed(covers_interval=covers_interval, first=first if covers_interval else None)
    return Differences(
        meaning=log.dialect.meaning,
        is_clock=log.basis is Basis.CLOCK,
        first_step=log.dialect.first_step,
        pauses=[float(record.step) for record in log.gathered.evals if record.step is not None],
        first=first,
    )


def _spread(values: Floats, is_trace: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    """Put the values of the records between traces, which have none."""
    if not is_trace.any():
        return values
    spread = np.full(len(is_trace), np.nan)
    spread[~is_trace] = values
    return spread


def _compare_with_clock(log: ReadLog, sums: _Sums) -> list[Message]:
    """A factor of 1000 between the printed numbers and the clock is a wrong unit, not a slow machine."""
    is_sum = log.dialect.covers == "interval" or log.gathered.prints_every_step
    if log.basis is not Basis.PRINTED or not is_sum or sums.clock_s < _MIN_CLOCK_S or sums.printed_s <= 0:
        return []
    if log.scale.global_batch is None and not log.gathered.has_samples and not log.gathered.has_seconds:
        return []  # rates without the work of a step say nothing about its time
    times = sums.printed_s / sums.clock_s
    if 1 / _MAX_SHORTER <= times <= _MAX_LONGER:
        return []
    return [clock_disagrees(printed_s=sums.printed_s, clock_s=sums.clock_s, times=times)]
