"""Laws of one run, checked when it is analysed: its rate, its metrics and its first loss must be possible."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.peaks import find_peak
from trainmark.analyse.utilisation import achieved_flops_per_s, card_of, measured_peak
from trainmark.messages.laws import above_peak, faster_than_clock, impossible_metric, odd_first_loss
from trainmark.messages.machine import clock_jump
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow

_FASTER = 1.25
_FASTER_WITH_EVALUATIONS = 2.0
"""Where every stretch between two stamps holds an evaluation, whose seconds are not known."""
_RESOLUTIONS = 10
"""A stretch must be so many times longer than the smallest step of its clock."""
_MIN_STRETCHES = 4
_MIN_OWN_S = 2.0
_OWN_SLACK_S = 1.0
"""Records are written in bursts, behind the steps."""
_WHOLE = 0.02
_FRACTIONS = ("acc", "top1", "top5", "top_1", "top_5", "miou", "map", "precision", "recall", "hmean", "f1", "f_measure",
    "ap", "ap50", "ap75", "bbox_map", "mask_map", "box_ap", "mask_ap", "segm_map", "dice")  # fmt: skip
_MIN_BITS = 40.0
_FIRST_STEP = 1.0


def check_laws(row: RunRow, estimate: Estimate | None) -> Iterator[Message]:
    if row.outcome != "ok":
        return
    for found in (check_clock(row, estimate), check_peak(row, estimate), check_metrics(row), check_first_loss(row)):
        if found is not None:
            yield found


# -- the clock ---------------------------------------------------------------------------------------------------------


def check_clock(row: RunRow, estimate: Estimate | None) -> Message | None:
    """rate <= 1.25 x samples / elapsed, in three quarters of the stretches between time stamps.

    A pause lengthens some stretches and not the others. A log whose rate counts an accumulated batch is a whole number
    of times faster than its steps seem to be, all the time; without the seconds of a step it cannot be told from a
    wrong rate, so it is not marked.
    """
    if estimate is None or row.log.get("is_cumulative") or len(row.times) != len(row.seconds):
        return None
    if row.stamped_s is not None and row.dialect is None:
        return _check_own_clock(row, estimate, row.stamped_s)
    claimed_s, elapsed_s, has_evaluation = _stretches(row)
    if len(claimed_s) < _MIN_STRETCHES:
        return None
    limit = _FASTER
    if has_evaluation.all():
        limit = _FASTER_WITH_EVALUATIONS
    else:
        claimed_s, elapsed_s = claimed_s[~has_evaluation], elapsed_s[~has_evaluation]
    times = elapsed_s / claimed_s
    least = float(np.quantile(times, 0.25))
    if least <= limit or (row.dialect is not None and not row.log.get("has_seconds") and _is_whole(times)):
        return None
    usual = float(np.median(times))
    return faster_than_clock(claimed=estimate.value, clock=estimate.value / usual, unit=row.unit, times=usual)


def _check_own_clock(row: RunRow, estimate: Estimate, stamped_s: float) -> Message | None:
    """Of our own workers: the time of day between the first and the last step record, without the recorded pauses."""
    has_gap = row.resumed_from is not None or row.resumed_steps
    has_jumped = any(warning.get("code") == clock_jump.code for warning in row.warnings)
    if has_gap or has_jumped or stamped_s < _MIN_OWN_S:
        return None
    claimed_s, elapsed_s = float(row.seconds[1:].sum()), stamped_s - sum(row.pauses.values())
    if claimed_s <= 0 or elapsed_s <= _FASTER * claimed_s + _OWN_SLACK_S:
        return None
    times = elapsed_s / claimed_s
    return faster_than_clock(claimed=estimate.value, clock=estimate.value / times, unit=row.unit, times=times)


def _is_whole(times: NDArray[np.float64]) -> bool:
    middle = np.quantile(times, [0.25, 0.5, 0.75])
    whole = max(1.0, round(float(middle[1])))
    return whole >= 2 and bool(np.all(np.abs(middle / whole - 1) <= _WHOLE))


def _stretches(row: RunRow) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Seconds that the records claim, seconds by their stamps, and whether an evaluation lies inside.

    Records are joined until a stretch is long enough for the clock's resolution: stamps may be in whole seconds.
    """
    steps = _covered_steps(row)
    stamps = row.times
    is_known = np.isfinite(stamps)
    if not is_known.all() or steps is None:
        return np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_)
    gaps = np.diff(stamps)
    least_s = _RESOLUTIONS * _resolution(stamps)
    claims = row.seconds[1:] * steps
    evaluated = np.array(sorted(e["time_s"] for e in row.evals if e.get("time_s") is not None))
    claimed, elapsed, evaluations = [], [], []
    begin, claimed_s = 0, 0.0
    for place, gap in enumerate(gaps):
        if gap < 0:  # the clock was set back, or another run was appended
            begin, claimed_s = place + 1, 0.0
            continue
        claimed_s += float(claims[place])
        span = float(stamps[place + 1] - stamps[begin])
        if span >= least_s and claimed_s > 0:
            inside = np.searchsorted(evaluated, [stamps[begin], stamps[place + 1]])
            claimed.append(claimed_s)
            elapsed.append(span)
            evaluations.append(bool(inside[1] > inside[0]))
            begin, claimed_s = place + 1, 0.0
    return np.array(claimed), np.array(elapsed), np.array(evaluations, dtype=np.bool_)


def _covered_steps(row: RunRow) -> NDArray[np.float64] | None:
    """How many steps lie between two records, for a log that prints the seconds of one of them; else 1.

    None for a log without step numbers, or whose numbers start again: what its records cover is not known.
    """
    ones = np.ones(max(len(row.seconds) - 1, 0))
    if row.dialect is None:
        return ones
    steps = np.diff(row.steps)
    if row.log.get("covers") is None or not np.isfinite(steps).all() or (steps <= 0).any():
        return None
    return steps if row.log["covers"] == "step" else ones


def _resolution(stamps: NDArray[np.float64]) -> float:
    return 1.0 if np.array_equal(stamps, np.round(stamps)) else 1e-3


_ABOVE_MEASURED = 1.2
"""Readings of the matrix peak of one kind of card (H200, bf16) lay between 690 and 820 TFLOP/s: 19% apart."""


# -- the device --------------------------------------------------------------------------------------------------------


def check_peak(row: RunRow, estimate: Estimate | None) -> Message | None:
    """rate x FLOPs per sample / devices <= dense peak of the device in this precision, by data sheet or measured."""
    is_tf32_possible = row.dialect is not None and not row.log.get("is_tf32_off")
    peak = find_peak(row.machine, row.precision, is_tf32_possible=is_tf32_possible)
    measured = measured_peak(row)
    if measured is not None:
        peak = min(peak or math.inf, _ABOVE_MEASURED * measured / 1e12)
    achieved = achieved_flops_per_s(row, estimate) if peak is not None else None
    if achieved is None or peak is None or achieved / 1e12 <= peak:
        return None
    return above_peak(claimed=achieved / 1e12, peak=peak, machine=str(row.machine), precision=str(row.precision))


# -- the training ------------------------------------------------------------------------------------------------------


def check_metrics(row: RunRow) -> Message | None:
    """0 <= metric <= 1 for a share; a log may print it in percent."""
    most = 1.0 if row.dialect is None else 100.0
    for evaluation in row.evals:
        metric, value = str(evaluation.get("metric")), evaluation.get("value")
        is_share = row.dialect is None or _is_share(metric)
        if is_share and isinstance(value, (int, float)) and not 0 <= value <= most:
            return impossible_metric(metric=metric, value=value, most=most)
    return None


def _is_share(metric: str) -> bool:
    name = metric.lower().rsplit("/", 1)[-1].replace("-", "_")
    return name in _FRACTIONS or "accuracy" in name


def check_first_loss(row: RunRow) -> Message | None:
    """|first loss - ln(classes)| <= max(1, ln(classes) / 4), for cross-entropy from untrained weights."""
    if not len(row.losses) or row.loss_steps[0] > _FIRST_STEP or row.resumed_from is not None or row.resumed_steps:
        return None
    card = card_of(row)
    if card is None or not card.starts_uniform:
        return None
    known = row.environment.get("num_classes")
    classes = known if isinstance(known, int) and known > 1 else card.num_classes
    expected, loss = math.log(classes), float(row.losses[0])
    if abs(loss - expected) <= max(1.0, expected / 4):
        return None
    return odd_first_loss(loss=loss, classes=classes, expected=expected)


# -- copies ------------------------------------------------------------------------------------------------------------


def fingerprint(row: RunRow) -> str | None:
    """Of the step durations; None if so few or so similar ones could agree by chance."""
    if row.outcome != "ok" or not len(row.seconds):
        return None
    num, ordered = len(row.seconds), np.sort(row.seconds)
    if (ordered[1:] > ordered[:-1]).all():
        bits = num * math.log2(num)
    else:
        _, counts = np.unique(ordered, return_counts=True)
        shares = counts / num
        bits = -num * float((shares * np.log2(shares)).sum())
    return hashlib.sha256(row.seconds.tobytes()).hexdigest()[:16] if bits >= _MIN_BITS else None
