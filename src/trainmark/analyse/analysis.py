"""What the steps of a run give, in few numbers: computed once, kept by the index, read by every table.

Loads nothing heavy: who reads a thousand kept analyses needs neither the steps nor numpy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from weakref import WeakKeyDictionary

from trainmark.analyse.estimate import Estimate
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Analysis:
    estimate: Estimate | None
    """None for a run without an `ok`: correctness gates speed. So are the other speeds."""
    num_records: int
    """Step records that have a speed."""
    median: float | None
    mean_of_rates: float | None
    last: float | None
    """Of the per-record rates, for comparison with older reports."""
    speeds: dict[str, float] | None
    """Of the whole training, three ways; None for a run without pauses."""
    warnings: tuple[dict[str, str], ...]
    """What the numbers of this run alone say against it."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Analysis:
        estimate = value["estimate"]
        if estimate is not None:
            ci95 = estimate["ci95"]
            estimate = Estimate(**{**estimate, "ci95": tuple(ci95) if ci95 is not None else None})
        return cls(**{**value, "estimate": estimate, "warnings": tuple(value["warnings"])})


_found: WeakKeyDictionary[RunRow, Analysis] = WeakKeyDictionary()
"""Of the rows at hand: several parts of a table ask for the same one."""


def analysis_of(row: RunRow) -> Analysis:
    """The kept one, or a new one."""
    if row not in _found:
        _found[row] = Analysis.from_json(row.analysis) if row.analysis is not None else _analyse(row)
    return _found[row]


def _analyse(row: RunRow) -> Analysis:
    from trainmark.analyse.steps import analyse_steps

    return analyse_steps(row)


def estimate_run(row: RunRow) -> Estimate | None:
    """None for a run without an `ok`."""
    return analysis_of(row).estimate if row.outcome == "ok" else None
