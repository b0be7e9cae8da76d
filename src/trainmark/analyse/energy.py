"""Energy of the steady steps: power by the counters over the same steps as the throughput, and samples per joule.

Counters of several devices are read at different times; each is interpolated at the times of the first, which is exact
enough since a counter only grows, and added up. The increments make a series of joules over seconds, whose interval is
that of a throughput (`throughput.py`): neighbouring increments depend on each other as steps do. Increments that touch
a pause or the warm-up are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainmark.analyse.estimate import Estimate, Ratio, speedup
from trainmark.analyse.repeats import pool
from trainmark.messages.energy import (
    energy_disagrees,
    energy_not_recorded,
    energy_part_missing,
    energy_too_short,
)
from trainmark.messages.message import Message
from trainmark.store.rows import TELEMETRY, RunRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIN_READINGS = 8
"""Increments; fewer have no interval, and the first and the last cannot be told from the others."""
_NEEDED_S = 5.0
_DISAGREE = 0.05
_SAMPLED_S = 1.0
"""What one sample of NVML's power is the mean of, on GPUs since Ampere."""


@dataclass(frozen=True, kw_only=True)
class Power:
    """Of all devices, or of the processors of all hosts, while the steady steps ran."""

    watts: Estimate | None
    """By the energy counters; None if not measured."""
    num_counters: int
    """Each device counts once, whatever the number of ranks on it."""
    missing: Message | None
    """Why `watts` is None."""
    sampled_w: float | None = None
    """Mean of the power that rank 0 sampled over the same time, for its own device: a check of the counter."""
    counter_w: float | None = None
    """By the counter of the same device alone."""

    def to_json(self) -> dict[str, Any]:
        watts = self.watts.to_json() if self.watts is not None else None
        missing = self.missing.to_json() if self.missing is not None else None
        return {**vars(self), "watts": watts, "missing": missing}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Power:
        watts = Estimate.from_json(value["watts"]) if value["watts"] is not None else None
        missing = Message.from_json(value["missing"]) if value["missing"] is not None else None
        return cls(**{**value, "watts": watts, "missing": missing})


Powers = dict[str, Power]
"""By kind: `device` for a run on accelerators, `host` for the processors."""


def measure_power(row: RunRow, steady: NDArray[np.bool_]) -> Powers:
    """`steady`: for each step whether it counts for the throughput."""
    kinds = ("host",) if row.device == "cpu" else ("device", "host")
    if not row.energy:
        return {kind: Power(watts=None, num_counters=0, missing=energy_not_recorded()) for kind in kinds}
    spans = _steady_spans(row, steady)
    return {kind: _measure(row, kind, spans) for kind in kinds}


def find_disagreement(powers: Powers) -> Message | None:
    found = powers.get("device")
    if found is None or found.sampled_w is None or found.counter_w is None:
        return None
    apart = abs(found.counter_w - found.sampled_w) / max(found.counter_w, found.sampled_w)
    if apart <= _DISAGREE:
        return None
    return energy_disagrees(counter_w=found.counter_w, sampled_w=found.sampled_w, apart=apart)


def _steady_spans(row: RunRow, steady: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """From when to when steps were steady, by the time of day, without pauses."""
    stamps = row.stamps
    if len(stamps) != len(steady) or len(stamps) < 2:
        return []
    pauses = sorted((begin, begin + seconds) for _, begin, seconds in row.paused.tolist() if math.isfinite(begin))
    spans: list[tuple[float, float]] = []
    begin: float | None = None
    for place in range(1, len(stamps)):
        if not steady[place] or not math.isfinite(stamps[place]):
            begin = None
            continue
        if begin is None:
            begin = float(stamps[place - 1])
            spans.append((begin, begin))
        spans[-1] = (begin, float(stamps[place]))
    return [part for span in spans for part in _without(span, pauses)]


def _without(span: tuple[float, float], pauses: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    begin, end = span
    parts = []
    for pause_begin, pause_end in pauses:
        if pause_end <= begin or pause_begin >= end:
            continue
        parts.append((begin, pause_begin))
        begin = pause_end
    return [(low, high) for low, high in (*parts, (begin, end)) if high > low]


def _measure(row: RunRow, kind: str, spans: Sequence[tuple[float, float]]) -> Power:
    import numpy as np

    from trainmark.analyse.throughput import estimate_throughput

    counters = [place for place, found in enumerate(row.energy["counters"]) if found["kind"] == kind]
    missing = _why_missing(row, kind, len(counters))
    if missing is not None:
        return Power(watts=None, num_counters=len(counters), missing=missing)
    readings = [row.energy_readings[row.energy_readings[:, 0] == place, 1:] for place in counters]
    parts = [_increments(readings, span) for span in spans]
    seconds, joules = (np.concatenate([part[axis] for part in parts] or [np.empty(0)]) for axis in (0, 1))
    if len(seconds) < MIN_READINGS:
        lasted = sum(end - begin for begin, end in spans)
        too_short = energy_too_short(seconds=lasted, readings=len(seconds), needed=_NEEDED_S)
        return Power(watts=None, num_counters=len(counters), missing=too_short)
    watts = estimate_throughput(seconds, joules, is_printed=False)
    sampled_w, counter_w = _check(row, readings[0], spans) if kind == "device" else (None, None)
    return Power(watts=watts, num_counters=len(counters), missing=None, sampled_w=sampled_w, counter_w=counter_w)


def _why_missing(row: RunRow, kind: str, num_counters: int) -> Message | None:
    reasons = [Message.from_json(found) for found in row.energy.get("missing", {}).get(kind, [])]
    if num_counters == 0:
        return reasons[0] if reasons else energy_not_recorded()
    if not reasons:
        return None
    num_devices = (row.devices or num_counters + len(reasons)) if kind == "device" else num_counters + len(reasons)
    return energy_part_missing(known=num_counters, devices=num_devices, why=reasons[0])


def _increments(readings: Sequence[Floats], span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Seconds and joules between readings inside the span; a reading at which no counter had moved is left out."""
    import numpy as np

    times = readings[0][:, 0] if len(readings[0]) else np.empty(0)
    times = times[(times >= span[0]) & (times <= span[1])]
    if len(times) < 2 or any(len(one) < 2 or one[-1, 0] < times[0] for one in readings):
        return np.empty(0), np.empty(0)
    total = np.sum([np.interp(times, one[:, 0], one[:, 1]) for one in readings], axis=0)
    moved = np.concatenate(([True], np.diff(total) > 0))
    return np.diff(times[moved]), np.diff(total[moved])


def _check(row: RunRow, own: Floats, spans: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Mean sampled power of rank 0's device, and its power by the counter, over the same seconds.

    A sample is the mean of the second before it, so one of which a part lies before the steady steps is left out: the
    idle GPU in it made the two differ by 5% in runs of 7 s.
    """
    import numpy as np

    samples = row.telemetry[:, [0, TELEMETRY.index("gpu_power_w")]]
    samples = samples[np.isfinite(samples[:, 1])]
    inside = [samples[(samples[:, 0] - _SAMPLED_S >= begin) & (samples[:, 0] <= end)] for begin, end in spans]
    ends, watts = np.concatenate([np.empty((0, 2)), *inside]).T
    is_counted = (ends - _SAMPLED_S >= own[0, 0]) & (ends <= own[-1, 0])
    ends, watts = ends[is_counted], watts[is_counted]
    if not len(ends):
        return None, None
    begun_j, ended_j = (np.interp(times, own[:, 0], own[:, 1]) for times in (ends - _SAMPLED_S, ends))
    return float(np.mean(watts)), float(np.mean(ended_j - begun_j)) / _SAMPLED_S


# -- samples per joule -------------------------------------------------------------------------------------------------


def main_kind(row: RunRow) -> str:
    """What the energy of a run is counted for: its accelerators, or the processors where it runs on these."""
    return "host" if row.device == "cpu" else "device"


def samples_per_joule(throughput: Estimate | None, powers: Sequence[Power]) -> Ratio | None:
    """Samples a second over joules a second, of one run or of the repeats of a line; None if any is not measured."""
    watts = [power.watts for power in powers if power.watts is not None]
    if throughput is None or throughput.is_too_noisy or not watts or len(watts) < len(powers):
        return None
    return speedup(throughput, pool(watts))
