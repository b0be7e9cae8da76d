"""The step table of an imported log as columns, in bounded memory.

A log may have millions of records. Analysis and index get at most `MAX_ROWS` rows: of a longer table, each row is the
sum of a group of neighbouring records. Seconds and samples stay exact, and an interval already allows for steps that
depend on each other; `steps.npy` keeps every record.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.records import MAX_SECONDS, MIN_SECONDS
from trainmark.runfolder.step_table import Table, read_parts
from trainmark.store.rows import Steps

MAX_ROWS = 1 << 15
_PART_ROWS = 1 << 15
_MAX_SAMPLES = 1e15
Floats = NDArray[np.float64]


def num_records(table: Table) -> int:
    """Records of the dialect, with or without a duration."""
    return sum(int((part["is_trace"] == 0).sum()) for part in read_parts(table, _PART_ROWS))


def read_table(table: Table) -> Steps:
    """The table has one row per record, or one per group of `group` records."""
    group = -(-len(table) // MAX_ROWS)
    parts = [_condense(part, group) for part in read_parts(table, max(1, _PART_ROWS // max(group, 1)) * max(group, 1))]
    names = ("seconds", "samples", "steps", "times", "loss_steps", "losses", "rounding", "printed_rates")
    if not parts:
        return Steps(**{name: np.empty(0) for name in names})
    return Steps(**{name: np.concatenate([part[name] for part in parts]) for name in names})


def _condense(part: Table, group: int) -> dict[str, Floats]:
    part = part[part["is_trace"] == 0]
    seconds, samples = part["seconds"], part["samples"]
    with np.errstate(invalid="ignore"):
        is_known = (seconds >= MIN_SECONDS) & (seconds <= MAX_SECONDS) & (samples > 0) & (samples <= _MAX_SAMPLES)
    has_loss, has_rate = ~np.isnan(part["loss"]), ~np.isnan(part["rate"])
    numbers = np.where(np.isnan(part["step"]), np.arange(1.0, len(part) + 1), part["step"])
    found = {
        "seconds": _sum(seconds[is_known], group),
        "samples": _sum(samples[is_known], group),
        "steps": _last(part["step"][is_known], group),
        "times": _last(part["time_s"][is_known], group),
        "loss_steps": _last(numbers[has_loss], group),
        "losses": _last(part["loss"][has_loss], group),
        "rounding": _sum(part["rounding_s"][is_known], group),
    }
    rates = part["rate"][has_rate]
    if group == 1:
        return {**found, "printed_rates": np.array(rates)}
    # Equal work per record: the rate of a group is the harmonic mean.
    return {**found, "printed_rates": _sum(np.ones(len(rates)), group) / _sum(1.0 / rates, group)}


def _sum(values: Floats, group: int) -> Floats:
    if group == 1 or not len(values):
        return np.array(values)
    return np.add.reduceat(values, np.arange(0, len(values), group))


def _last(values: Floats, group: int) -> Floats:
    if group == 1 or not len(values):
        return np.array(values)
    return np.array(values[np.minimum(np.arange(0, len(values), group) + group, len(values)) - 1])
