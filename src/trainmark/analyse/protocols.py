"""Protocols: how others aggregate a log, to reproduce a published number and compare it with ours.

A protocol is `NAME` or `NAME:key=value,...`, a pure function of the records of one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trainmark.errors import InputError
from trainmark.store.rows import RunRow
from trainmark.units import format_count

if TYPE_CHECKING:
    from trainmark.store.rows import Floats

Options = Mapping[str, str]

_TEXT_UNITS = ("tokens", "words")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a protocol for a run."""

    value: float | None
    """None if the protocol cannot be applied; `reason` says why."""
    unit: str | None = None
    num_records: int | None = None
    """Number of records used."""
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Protocol:
    name: str
    summary: str
    defaults: Mapping[str, str]
    apply: Callable[[RunRow, Options], Answer]


def parse_protocol(text: str) -> tuple[Protocol, Options]:
    name, _, rest = text.partition(":")
    protocol = PROTOCOLS.get(name)
    if protocol is None:
        raise InputError(f"unknown protocol {name!r}", hint=f"choose from {', '.join(PROTOCOLS)}")
    options = dict(protocol.defaults)
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in options:
            raise InputError(
                f"unknown option {part!r} of protocol {name}",
                hint=f"options: {', '.join(f'{key}={value}' for key, value in protocol.defaults.items()) or 'none'}",
            )
        options[key] = value
    _check(protocol, options)
    return protocol, options


def apply_protocol(text: str, row: RunRow) -> dict[str, Any]:
    """As `--json` prints it."""
    protocol, options = parse_protocol(text)
    is_possible = len(row.rates) > 0 or protocol.apply is _stated
    answer = protocol.apply(row, options) if is_possible else Answer(value=None, reason="the run has no records")
    return {
        "name": text,
        "value": answer.value,
        "unit": answer.unit,
        "records": answer.num_records,
        "reason": answer.reason,
    }


def _check(protocol: Protocol, options: Options) -> None:
    for key in ("skip", "count"):
        if key in options and not (options[key].isdigit() and len(options[key]) < 10):
            raise InputError(
                f"{key} must be an integer >= 0, got {options[key]}", hint=f"like {protocol.name}:{key}=10"
            )
    if options.get("mode") not in (None, *(str(mode) for mode in range(-1, 5))):
        raise InputError(f"unknown mode {options['mode']}", hint="choose from -1, 0, 1, 2, 3 and 4")
    if options.get("by") not in (None, "auto", "timestamp", "step"):
        raise InputError(f"unknown value by={options['by']}", hint="choose from by=timestamp, by=step and by=auto")


def _after(row: RunRow, options: Options) -> slice | None:
    skip = int(options["skip"])
    return slice(skip, None) if skip < len(row.rates) else None


def _too_few(row: RunRow) -> Answer:
    return Answer(value=None, reason=f"it has only {format_count(len(row.rates), 'records')}, and all are skipped")


def _mean(row: RunRow, options: Options) -> Answer:
    part = _after(row, options)
    if part is None:
        return _too_few(row)
    rates = row.rates[part]
    return Answer(value=float(rates.mean()), unit=f"{row.unit}/s", num_records=len(rates))


def _last(row: RunRow, _: Options) -> Answer:
    return Answer(value=float(row.rates[-1]), unit=f"{row.unit}/s", num_records=1)


def _last_cumulative(row: RunRow, _: Options) -> Answer:
    is_since_start = str(row.log.get("meaning")).startswith("since-")
    if not is_since_start and not row.log.get("is_cumulative"):
        return Answer(value=None, reason="its records are not means since the start")
    return Answer(value=float(row.rates[-1]), unit=f"{row.unit}/s", num_records=1)


def _stated(row: RunRow, options: Options) -> Answer:
    stated = row.log.get("stated")
    known = stated if isinstance(stated, dict) else {}
    name = options["name"] or next(iter(known), "")
    entry = known.get(name)
    value = entry.get("value") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(value, (int, float)):
        return Answer(value=None, reason=f"the log states {', '.join(known) or 'nothing'}")
    return Answer(value=float(value), unit=f"{entry.get('unit') or row.unit}/s", num_records=None)


def _paddle(row: RunRow, options: Options) -> Answer:
    """PaddlePaddle's benchmark: skip records, take the arithmetic mean of the printed values, then convert by mode.

    The printed value is the rate of one device (-1), seconds per step (0, 2), or steps per second (1, 3).
    """
    part = _after(row, options)
    if part is None:
        return _too_few(row)
    mode = int(options["mode"])
    rates = row.rates[part]
    used = len(rates)
    if mode == -1:
        if not row.devices:
            return Answer(value=None, reason="the number of devices is unknown")
        per_device = float((rates / row.devices).mean())
        return Answer(value=per_device * row.devices, unit=f"{row.unit}/s", num_records=used)
    if mode == 4:
        return _seconds_per_epoch(row, used)
    if row.unit in _TEXT_UNITS:
        return Answer(value=None, reason=f"its rates count {row.unit}, whose number per step is unknown")
    is_counted = row.unit == "iterations"  # then modes 1 and 2, which give steps per second, need no batch size
    if not (row.devices and row.batch_size_per_device) and not (is_counted and mode in (1, 2)):
        return Answer(value=None, reason="the number of devices or the batch size per device is unknown")
    batch = 1 if is_counted else (row.devices or 0) * (row.batch_size_per_device or 0)
    step_s = batch / rates
    steps_per_s = float((1 / step_s).mean())
    if mode == 0:
        return Answer(value=batch / float(step_s.mean()), unit=f"{row.unit}/s", num_records=used)
    if mode == 1:
        return Answer(value=steps_per_s, unit="steps/s", num_records=used)
    if mode == 2:
        return Answer(value=1 / float(step_s.mean()), unit="steps/s", num_records=used)
    return Answer(value=steps_per_s * batch, unit=f"{row.unit}/s", num_records=used)


def _seconds_per_epoch(row: RunRow, used: int) -> Answer:
    """Mean of the printed seconds, if a record is an epoch."""
    if row.log.get("covers") != "step" or not np.isnan(row.steps).all():
        return Answer(value=None, reason="its records are not epochs")
    return Answer(value=float(row.seconds[-used:].mean()), unit="s/epoch", num_records=used)


def _dlperf(row: RunRow, options: Options) -> Answer:
    """DLPerf: skip the first iterations and time the next ones, by time stamps if there are any."""
    skip, count = int(options["skip"]), int(options["count"])
    steps = row.steps if len(row.steps) == len(row.seconds) else np.full(len(row.seconds), math.nan)
    numbers = _count_iterations(steps)
    by = options["by"]
    has_times = len(row.times) == len(row.seconds) and not np.isnan(row.times).any()
    if by == "timestamp" and not has_times:
        return Answer(value=None, reason="it has no time stamps")
    if by != "step" and has_times:
        return _dlperf_by_times(row, numbers, skip, count)
    inside = (numbers > skip) & (numbers <= skip + count)
    if not inside.any():
        return Answer(value=None, reason=f"it has no records between iterations {skip} and {skip + count}")
    value = float(row.samples[inside].sum() / row.seconds[inside].sum())
    return Answer(value=value, unit=f"{row.unit}/s", num_records=int(inside.sum()))


def _count_iterations(steps: Floats) -> Floats:
    """Iterations since the start, from 1. A log may count from 0, and start again in each epoch."""
    if np.isnan(steps).any():
        return np.arange(1, len(steps) + 1.0)
    numbers = steps + (0.0 if steps[0] > 0 else 1.0)
    falls = np.flatnonzero(np.diff(steps) < 0)
    before = np.zeros(len(steps))
    before[falls + 1] = numbers[falls]  # the last number of an epoch is its length
    total: Floats = numbers + np.cumsum(before)
    return total


def _dlperf_by_times(row: RunRow, numbers: Floats, skip: int, count: int) -> Answer:
    begin, end = (int(np.argmin(np.abs(numbers - wanted))) for wanted in (skip, skip + count))
    if not (row.devices and row.batch_size_per_device):
        return Answer(value=None, reason="the number of devices or the batch size per device is unknown")
    elapsed_s = row.times[end] - row.times[begin]
    iterations = numbers[end] - numbers[begin]
    if elapsed_s <= 0 or iterations <= 0:
        return Answer(value=None, reason=f"it has no two records near iterations {skip} and {skip + count}")
    value = float(iterations * row.devices * row.batch_size_per_device / elapsed_s)
    return Answer(value=value, unit=f"{row.unit}/s", num_records=end - begin)


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="paddle-benchmark",
            summary="PaddlePaddle benchmark: skip records, mean, then mode -1 to 4",
            defaults={"mode": "-1", "skip": "0"},
            apply=_paddle,
        ),
        Protocol(
            name="dlperf",
            summary="DLPerf: skip 20 iterations, time the next 100, by time stamp or by step",
            defaults={"skip": "20", "count": "100", "by": "auto"},
            apply=_dlperf,
        ),
        Protocol(
            name="mean-after",
            summary="arithmetic mean of the records' rates after the first ones",
            defaults={"skip": "0"},
            apply=_mean,
        ),
        Protocol(name="last", summary="the last record's rate", defaults={}, apply=_last),
        Protocol(
            name="last-cumulative",
            summary="the last mean since the start, for logs that print such means (Detectron2, PSENet)",
            defaults={},
            apply=_last_cumulative,
        ),
        Protocol(
            name="stated",
            summary="the number that the log itself states for the run, by name",
            defaults={"name": ""},
            apply=_stated,
        ),
    )
}
