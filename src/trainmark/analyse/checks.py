"""Mistakes that made published numbers wrong, found in the numbers of one run; see docs/concepts/warnings.md.

A check is silent if the numbers are not sufficient. Noise is checked in every run, the rest only in imported logs: our
own runs cannot have these mistakes. What no result may have, whoever made it, is in `laws.py`.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.noise import explain_noise
from trainmark.messages.message import Message
from trainmark.messages.numbers import (
    collapsed_record,
    epoch_index,
    evaluation_inside,
    mean_of_rates,
    stated_scope,
    tf32_as_fp32,
)
from trainmark.store.rows import RunRow

_RATES_APART = 1.05
_COLLAPSED = 0.5
_SLOW_STEP = 1.5
_MIN_RECORDS = 5
_STATED_TOLERANCE = 0.25
_AMPERE_OR_LATER = re.compile(
    r"\b(?:A100|A800|A10|A30|A40|A6000|H100|H800|H200|H20|GH200|B100|B200|GB200|L4|L20|L40S?|RTX ?[345]0\d\d)\b"
)


def check_run(row: RunRow, estimate: Estimate | None) -> list[Message]:
    noise = [] if estimate is None or not estimate.is_too_noisy else [explain_noise(estimate, row.unit, row.warnings)]
    if row.dialect is None or row.witness == "observer":
        return noise
    checks = (
        check_mean_of_rates(row, estimate),
        check_stated_scope(row, estimate),
        check_collapsed_record(row),
        check_evaluation_inside(row),
        check_epoch_index(row),
        check_tf32(row),
    )
    return [*noise, *(warning for warning in checks if warning is not None)]


def check_mean_of_rates(row: RunRow, estimate: Estimate | None) -> Message | None:
    """A mean of rates ignores how long slow records took. Records that another check explains are excluded."""
    if estimate is None or estimate.method == "cumulative" or estimate.num_steps < _MIN_RECORDS:
        return None
    kept = ~_slow_for_evaluation(row)
    kept[: estimate.num_warmup_steps] = False
    kept[-1] = kept[-1] and not _is_last_collapsed(row)
    if not kept.any():
        return None
    seconds, samples = row.seconds[kept], row.samples[kept]
    mean, over_time = float((samples / seconds).mean()), float(samples.sum() / seconds.sum())
    if mean <= _RATES_APART * over_time:
        return None
    return mean_of_rates(mean=mean, rate=over_time, apart=mean / over_time - 1)


def check_stated_scope(row: RunRow, estimate: Estimate | None) -> Message | None:
    """The total that the log states counts one node or one device instead of all, or multiplies a global rate."""
    stated = row.log.get("stated")
    if estimate is None or not isinstance(stated, dict) or not row.devices:
        return None
    for name, entry in stated.items():
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(value, (int, float)) or value <= 0:
            continue
        ratio = estimate.value / value
        times = round(ratio)
        if times >= 2 and row.devices % times == 0 and abs(ratio / times - 1) <= _STATED_TOLERANCE:
            return stated_scope(name=str(name), stated=value, rate=estimate.value, devices=row.devices, times=times)
        if row.devices >= 2 and abs(ratio * row.devices - 1) <= _STATED_TOLERANCE:
            return stated_scope(name=str(name), stated=value, rate=estimate.value, devices=row.devices, times=None)
    return None


def check_collapsed_record(row: RunRow) -> Message | None:
    """The last record of a run often includes the shutdown."""
    if not _is_last_collapsed(row):
        return None
    rates = row.samples / row.seconds
    usual = float(np.median(rates))
    return collapsed_record(last=float(rates[-1]), usual=usual)


def _is_last_collapsed(row: RunRow) -> bool:
    if len(row.seconds) < _MIN_RECORDS or row.log.get("is_cumulative"):
        return False
    rates = row.samples / row.seconds
    return bool(rates[-1] < _COLLAPSED * np.median(rates) and not _slow_for_evaluation(row)[-1])


def check_evaluation_inside(row: RunRow) -> Message | None:
    """Records that include an evaluation and are slow because of it."""
    slow = _slow_for_evaluation(row)
    if not slow.any():
        return None
    usual = float(np.median(row.seconds / row.samples))
    lost_s = float((row.seconds - row.samples * usual)[slow].sum())
    return evaluation_inside(records=int(slow.sum()), lost_s=lost_s)


def _slow_for_evaluation(row: RunRow) -> NDArray[np.bool_]:
    """Which records include an evaluation and are slow; none if most that include one are as fast as others."""
    none = np.zeros(len(row.seconds), dtype=np.bool_)
    evaluated = np.unique([step for e in row.evals if (step := e.get("step")) is not None])
    if len(evaluated) == 0 or len(row.seconds) < _MIN_RECORDS or len(row.steps) != len(row.seconds):
        return none
    if np.isnan(row.steps).any():
        return none
    per_sample = row.seconds / row.samples
    before = row.steps[:-1]
    # An evaluation after iteration n is part of the record that starts there.
    first, last = np.searchsorted(evaluated, before), np.searchsorted(evaluated, row.steps[1:])
    spans = np.concatenate(([False], last > first))
    slow: NDArray[np.bool_] = spans & (per_sample > _SLOW_STEP * np.median(per_sample))
    return slow if slow.sum() >= 0.5 * spans.sum() else none


def check_epoch_index(row: RunRow) -> Message | None:
    """AI-Rank wants the number of finished epochs; some programs print the index of the last one."""
    epochs = [e.get("epoch") for e in row.evals if e.get("metric") == "eval_accuracy"]
    if not epochs or epochs[0] != 0:
        return None
    return epoch_index()


def check_tf32(row: RunRow) -> Message | None:
    if row.precision != "fp32" or row.machine is None or not _AMPERE_OR_LATER.search(row.machine):
        return None
    if row.log.get("is_tf32_off"):
        return None
    return tf32_as_fp32(machine=row.machine)
