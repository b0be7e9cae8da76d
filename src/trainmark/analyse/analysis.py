"""The analysis of one run: a few numbers from its steps, computed once, kept in the index, used by every table.

numpy is imported only to analyse steps: reading a thousand kept analyses needs neither the steps nor numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainmark.analyse.energy import Power, Powers, find_disagreement, measure_power
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.training import speeds
from trainmark.analyse.utilisation import measured_peak
from trainmark.messages.numbers import not_analysed
from trainmark.store.rows import RunRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Analysis:
    estimate: Estimate | None
    """None unless the outcome is `ok`: a run that failed has no speed. The same holds for the other speeds."""
    num_records: int
    """Step records that have a speed."""
    median: float | None
    mean_of_rates: float | None
    last: float | None
    """Of the per-record rates, for comparison with older reports."""
    speeds: dict[str, float] | None
    """Of the whole training, computed three ways; None for a run without pauses."""
    warnings: tuple[dict[str, Any], ...]
    """Found in the numbers of this run alone."""
    fingerprint: str | None = None
    """Of all step durations, to find copies; None if they vary too little to tell a copy from chance."""
    measured_peak: float | None = None
    """FLOP/s of a matrix product on the device, if that was measured."""
    powered: Sequence[str] = ()
    """Kinds of energy counters that tell a power."""
    powers: Powers = field(default_factory=dict)
    """As measured; the index keeps them apart, see `powers_of`."""

    def to_json(self) -> dict[str, Any]:
        """Without the powers."""
        facts = {name: value for name, value in vars(self).items() if name != "powers"}
        return {**facts, "estimate": self.estimate.to_json() if self.estimate is not None else None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Analysis:
        estimate = Estimate.from_json(value["estimate"]) if value["estimate"] is not None else None
        return cls(**{**value, "estimate": estimate, "warnings": tuple(value["warnings"])})


def analysis_of(row: RunRow) -> Analysis:
    """The analysis kept in the index, or a new one."""
    found: Analysis | None = row.found.get("analysis")
    if found is None:
        found = Analysis.from_json(row.analysis) if row.analysis is not None else analyse_steps(row)
        row.found["analysis"] = found
    return found


def powers_of(row: RunRow) -> Powers:
    """During the steady steps of our own workloads; empty for other runs, and for those without a speed."""
    if row.analysis is None:
        return analysis_of(row).powers
    return {kind: Power.from_json(power) for kind, power in row.powers.items()}


def estimate_run(row: RunRow) -> Estimate | None:
    """None unless the outcome is `ok`."""
    return analysis_of(row).estimate if row.outcome == "ok" else None


def own_warnings(row: RunRow) -> list[dict[str, Any]]:
    """Warnings that the run recorded, and those found in its numbers."""
    return [*row.warnings, *analysis_of(row).warnings]


def analyse_steps(row: RunRow) -> Analysis:
    """Never fails: a run whose numbers cannot be analysed has no speed and a warning, and does not hide other runs."""
    try:
        return _analyse(row)
    except (ArithmeticError, TypeError, ValueError) as error:
        return Analysis(
            estimate=None,
            num_records=len(row.seconds),
            median=None,
            mean_of_rates=None,
            last=None,
            speeds=None,
            warnings=(not_analysed(error=f"{type(error).__name__}: {error}").to_json(),),
        )


def _analyse(row: RunRow) -> Analysis:
    import numpy as np

    from trainmark.analyse.checks import check_run
    from trainmark.analyse.medians import median
    from trainmark.analyse.run_laws import check_laws, fingerprint

    has_speed = row.outcome == "ok" and len(row.seconds) > 0
    estimate = _estimate(row) if has_speed else None
    rates = row.rates if has_speed else None
    powers = _measure_power(row) if has_speed else {}
    disagreement = find_disagreement(powers)
    kept = row.log.get("rates") or {}
    """Of a long log: exact, where its rows are sums of records."""
    return Analysis(
        estimate=estimate,
        num_records=len(row.seconds),
        median=kept.get("median", median(rates)) if rates is not None else None,
        mean_of_rates=kept.get("mean", float(np.mean(rates))) if rates is not None else None,
        last=kept.get("last", float(rates[-1])) if rates is not None else None,
        speeds=speeds(row),
        warnings=tuple(
            found.to_json()
            for found in (*check_run(row, estimate), *check_laws(row, estimate), disagreement)
            if found is not None
        ),
        fingerprint=fingerprint(row),
        measured_peak=measured_peak(row),
        powered=[kind for kind, power in powers.items() if power.watts is not None],
        powers=powers,
    )


def _estimate(row: RunRow) -> Estimate:
    from trainmark.analyse.digits import declared_error
    from trainmark.analyse.throughput import estimate_cumulative, estimate_throughput

    if row.log.get("is_cumulative"):
        return estimate_cumulative(row)
    # Our own records are differences of time stamps, and some of a log are differences of totals.
    is_printed = row.dialect is not None and row.log.get("basis") in (None, "printed")
    return estimate_throughput(
        row.seconds,
        row.samples,
        restarts=_find_restarts(row),
        is_printed=is_printed,
        known_rounding=declared_error(row.seconds, row.rounding, is_sum=not is_printed),
    )


def _measure_power(row: RunRow) -> Powers:
    """Only our own workers read counters."""
    if row.source != "trainmark":
        return {}
    import numpy as np

    # Which steps are steady takes long to find, and matters only where there are readings.
    return measure_power(row, find_steady_steps(row) if row.energy else np.empty(0, dtype=np.bool_))


def find_steady_steps(row: RunRow) -> NDArray[np.bool_]:
    """For each step whether the throughput rests on it."""
    from trainmark.analyse.throughput import find_steady

    return find_steady(row.seconds, _find_restarts(row))


def _find_restarts(row: RunRow) -> list[int]:
    """Indices of the first steps after each resume."""
    import numpy as np

    found = np.searchsorted(row.steps, sorted(row.resumed_steps), side="right")
    return [int(index) for index in np.unique(found) if 0 < index < len(row.steps)]
