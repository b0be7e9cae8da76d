"""The step table of an imported log as columns, in bounded memory.

A log may have millions of records. Analysis and index get at most `MAX_ROWS` rows: of a longer table, each row is the
sum of a group of neighbouring records. Seconds and samples stay exact, and an interval already allows for steps that
depend on each other; `steps.npy` keeps every record.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainmark.runfolder.records import MAX_SECONDS, MIN_SECONDS
from trainmark.runfolder.step_table import MAX_ROWS, Part, StepTable
from trainmark.store.rows import Steps

_PART_ROWS = 1 << 15
_MAX_SAMPLES = 1e15
_NAMES = ("seconds", "samples", "steps", "times", "loss_steps", "losses", "rounding", "printed_rates")
Floats = NDArray[np.float64]


def read_table(table: StepTable) -> tuple[Steps, int]:
    """One row per record, or one per group of records; and how many records there are, with or without a duration."""
    group = max(1, -(-table.num_rows // MAX_ROWS))
    parts, num_records = list[dict[str, Floats]](), 0
    for part in table.parts(max(1, _PART_ROWS // group) * group):
        num_records += int((part["is_trace"] == 0).sum())
        parts.append(_condense(part, group))
    if not parts:
        return Steps(**{name: np.empty(0) for name in _NAMES}), 0
    return Steps(**{name: np.concatenate([part[name] for part in parts]) for name in _NAMES}), num_records


def _condense(part: Part, group: int) -> dict[str, Floats]:
    has_loss = ~np.isnan(part["loss"])
    losses, numbers = part["loss"][has_loss], part["step"][has_loss]
    numbers = np.where(np.isnan(numbers), np.arange(1.0, len(numbers) + 1), numbers)
    if part["is_trace"].any():
        part = {name: values[part["is_trace"] == 0] for name, values in part.items()}
    seconds, samples = part["seconds"], part["samples"]
    with np.errstate(invalid="ignore"):
        is_known = (seconds >= MIN_SECONDS) & (seconds <= MAX_SECONDS) & (samples > 0) & (samples <= _MAX_SAMPLES)
    known = part if is_known.all() else {name: values[is_known] for name, values in part.items()}
    rates = part["rate"][~np.isnan(part["rate"])]
    return {
        "seconds": _sum(known["seconds"], group),
        "samples": _sum(known["samples"], group),
        "steps": _last(known["step"], group),
        "times": _last(known["time_s"], group),
        "loss_steps": _last(numbers, group),
        "losses": _last(losses, group),
        "rounding": _sum(known["rounding_s"], group),
        # Equal work per record: the rate of a group is the harmonic mean.
        "printed_rates": np.array(rates) if group == 1 else _sum(np.ones(len(rates)), group) / _sum(1.0 / rates, group),
    }


def _sum(values: Floats, group: int) -> Floats:
    if group == 1 or not len(values):
        return np.array(values)
    return np.add.reduceat(values, np.arange(0, len(values), group))


def _last(values: Floats, group: int) -> Floats:
    if group == 1 or not len(values):
        return np.array(values)
    return np.array(values[np.minimum(np.arange(0, len(values), group) + group, len(values)) - 1])
