"""Speed-ups from many runs, and the cells of a published table that the runs do not reproduce.

Each case is aggregated first and then divided by the aggregate of the baseline with the same batch, so that the result
does not depend on the order of files.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class CaseSpeed:
    """One case of a scaling table: all its runs together."""

    average_speed: float
    median_speed: float
    average_speedup: float | None
    median_speedup: float | None
    """None for a case without a baseline."""


@dataclass(frozen=True, kw_only=True)
class WrongCell:
    """A published value that the runs reproduce neither by mean nor by median."""

    case: str
    published: float
    by_mean: float
    by_median: float


def scaling_table(runs: Mapping[str, Sequence[float]], base: str) -> dict[str, CaseSpeed]:
    averages = {case: statistics.fmean(values) for case, values in runs.items() if values}
    medians = {case: statistics.median(values) for case, values in runs.items() if values}
    return {
        case: CaseSpeed(
            average_speed=averages[case],
            median_speed=medians[case],
            average_speedup=averages[case] / averages[base] if base in averages else None,
            median_speedup=medians[case] / medians[base] if base in medians else None,
        )
        for case in averages
    }


def wrong_cells(
    table: Mapping[str, CaseSpeed], published: Mapping[str, float], *, digits: int = 2
) -> tuple[WrongCell, ...]:
    """Cells that agree neither with the mean nor with the median, to the published digits."""
    found = []
    for case, value in published.items():
        ours = table.get(case)
        if ours is None or ours.average_speedup is None or ours.median_speedup is None:
            continue
        right = {round(ours.average_speedup, digits), round(ours.median_speedup, digits)}
        if round(value, digits) not in right:
            found.append(
                WrongCell(case=case, published=value, by_mean=ours.average_speedup, by_median=ours.median_speedup)
            )
    return tuple(found)


def case_name(row: RunRow) -> str | None:
    """DLPerf's name of a case, as 4n8g; None if nodes or devices are unknown."""
    return f"{row.nodes}n{row.devices // row.nodes}g" if row.nodes and row.devices else None


def speeds_by_case(rows: Iterable[RunRow], speeds: Mapping[str, float]) -> dict[str, list[float]]:
    """`speeds` by run id, as a protocol gives them; sorted, so that the order of files does not matter."""
    found: dict[str, list[float]] = {}
    for row in rows:
        case = case_name(row)
        if case is not None and row.id in speeds:
            found.setdefault(case, []).append(speeds[row.id])
    return {case: sorted(values) for case, values in sorted(found.items())}
