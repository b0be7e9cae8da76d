"""Laws that hold between runs: of one cell, and of numbers of devices. Each yields the runs that break it and why.

`far-repeat` is a test of an outlier among normal repeats: each run against the mean of the others, with the spread of
the others (externally studentised), at a level of 1% divided by the number of runs, and at least 2% apart. The spread
of two runs says little, so with three repeats the test alone would find next to nothing. Therefore a run is marked too
that is more than 20% from the others and eight times farther than their spread explains: machines that are used for
measurements have no such spread. Sets of normal repeats in which any is marked, in percent of 20,000 simulated ones (a
test repeats a part of it):

    spread between runs     1%     3%     5%     7%    10%
    3 repeats              0.2    0.9    1.1    2.5    6.9
    4 repeats              0.4    1.0    0.9    1.5    2.9
    5 repeats              0.5    1.0    1.0    1.0    1.4
    10 repeats             0.8    1.0    0.9    1.1    1.1
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from trainmark.analyse.analysis import analysis_of, estimate_run
from trainmark.analyse.distributions import t_quantile
from trainmark.analyse.estimate import Estimate, Ratio
from trainmark.analyse.table import Line
from trainmark.messages.laws import far_repeat, identical_repeat, more_is_slower, superlinear
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow

Broken = Iterator[tuple[str, Message]]
"""Run ids and reasons."""

_TOLERANCE = 0.02
_TOLERANCE_WITHOUT_INTERVAL = 0.05
_MIN_REPEATS = 3
_LEVEL = 0.01
_MIN_APART = 0.02
_GROSS = 0.2
_AGREE_BETTER = 8.0


def find_superlinear(lines: Sequence[Line]) -> Broken:
    """speed-up <= 1.02 x ratio of the devices; where it has an interval, that lies above the ratio."""
    for line, gain, ratio in _speedups(lines):
        if _is_above(gain, ratio):
            base = line.baseline.id if line.baseline is not None else None
            yield from ((run.id, superlinear(speedup=gain.value, ratio=ratio, base=base)) for run in _ok(line))


def find_more_is_slower(lines: Sequence[Line]) -> Broken:
    """speed-up >= 0.98 on more devices; where it has an interval, that lies below 1."""
    for line, gain, ratio in _speedups(lines):
        low, high = gain.ci95 or (gain.value, gain.value)
        inverse = Ratio(value=1 / gain.value, ci95=(1 / high, 1 / low) if gain.ci95 else None)
        if ratio > 1 and _is_above(inverse, 1.0) and line.baseline is not None:
            message = more_is_slower(speedup=gain.value, ratio=ratio, base=line.baseline.id)
            yield from ((run.id, message) for run in _ok(line))


def _speedups(lines: Sequence[Line]) -> Iterator[tuple[Line, Ratio, float]]:
    """The lines that have one, with the ratio of the devices; a result that is too noisy has none."""
    for line in lines:
        if line.speedup is not None and line.baseline is not None and line.first.devices and line.baseline.devices:
            yield line, line.speedup, line.first.devices / line.baseline.devices


def _is_above(ratio: Ratio, limit: float) -> bool:
    if ratio.ci95 is None:
        return ratio.value > (1 + _TOLERANCE_WITHOUT_INTERVAL) * limit
    return ratio.value > (1 + _TOLERANCE) * limit and ratio.ci95[0] > limit


def find_identical(lines: Sequence[Line]) -> Broken:
    """The step durations of two runs of a cell differ: measured twice, they are never equal to the last digit.

    Also on another machine or of other code, whose runs are in another line.
    """
    first: dict[tuple[str, str], RunRow] = {}
    runs = [run for line in lines for run in _ok(line)]
    for run in sorted(runs, key=lambda run: (run.started_unix_s or 0.0, run.id)):
        fingerprint = analysis_of(run).fingerprint
        if fingerprint is None:
            continue
        other = first.setdefault((run.cell_id, fingerprint), run)
        if other is not run:
            yield run.id, identical_repeat(steps=analysis_of(run).num_records, other=other.id)


def find_far_repeats(lines: Sequence[Line]) -> Broken:
    """|x - mean of the others| <= t x spread of the others x sqrt(1 + 1/n), on the logarithmic scale, or <= 2%."""
    for line in lines:
        measured = [(run, estimate) for run in _ok(line) if (estimate := estimate_run(run)) is not None]
        if len(measured) < _MIN_REPEATS:
            continue
        for place, apart, spread in find_outliers([estimate for _, estimate in measured]):
            others = len(measured) - 1
            yield measured[place][0].id, far_repeat(apart=math.expm1(apart), others=others, spread=spread)


def find_outliers(repeats: Sequence[Estimate]) -> Iterator[tuple[int, float, float]]:
    """Place, logarithm of the ratio to the others, and spread of the others."""
    logs, errors = [math.log(one.value) for one in repeats], [_relative_error(one) for one in repeats]
    for place, own in enumerate(logs):
        others = logs[:place] + logs[place + 1 :]
        mean = fmean(others)
        apart, spread = own - mean, math.sqrt(math.fsum((one - mean) ** 2 for one in others) / (len(others) - 1))
        # A run whose own steps say little may differ by more than the others do.
        within = fmean(error**2 for at, error in enumerate(errors) if at != place)
        error = math.sqrt(max(spread, errors[place]) ** 2 + max(spread**2, within) / len(others))
        is_chance = abs(apart) <= error * t_quantile(_LEVEL / len(repeats), len(others) - 1)
        is_gross = abs(apart) > _GROSS and error * _AGREE_BETTER < abs(apart)
        if abs(apart) > _MIN_APART and (is_gross or not is_chance):
            yield place, apart, spread


def _relative_error(estimate: Estimate) -> float:
    return (estimate.std_error or 0.0) / estimate.value


def _ok(line: Line) -> list[RunRow]:
    return [run for run in line.runs if run.outcome == "ok"]
