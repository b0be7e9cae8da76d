"""How much worse than its baseline a metric may be before `check` calls it a regression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Metric(StrEnum):
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    """Peak memory."""
    FIRST_STEP = "first_step"
    """Seconds from the start of a run to the end of its first step."""
    ACCURACY = "accuracy"
    """The last value of the main metric of the evaluations."""

    @property
    def is_better_higher(self) -> bool:
        return self in (Metric.THROUGHPUT, Metric.ACCURACY)


DEFAULTS: Mapping[Metric, float] = {
    Metric.THROUGHPUT: 0.02,
    Metric.MEMORY: 0.05,
    Metric.FIRST_STEP: 0.5,
    Metric.ACCURACY: 0.01,
}
"""As fractions of the baseline. The time to the first step depends on caches, so only a large change counts."""


@dataclass(frozen=True, kw_only=True)
class ToleranceRule:
    """One [[tolerance]] of a baseline file."""

    cell: str | None
    """A shell pattern for the names of cells; None: all cells."""
    values: Mapping[Metric, float | None]
    """None: the metric is not judged."""

    def is_for(self, name: str) -> bool:
        return self.cell is None or fnmatchcase(name, self.cell)


def tolerances_of(name: str, rules: Sequence[ToleranceRule]) -> dict[Metric, float | None]:
    """Of the cell with this name: the defaults, then every rule that matches it; a later rule overrides."""
    found: dict[Metric, float | None] = dict(DEFAULTS)
    for rule in rules:
        if rule.is_for(name):
            found.update(rule.values)
    return found


def unused_rules(rules: Sequence[ToleranceRule], names: Iterable[str]) -> list[ToleranceRule]:
    """A pattern that matches no cell is a mistake that would silently apply the defaults."""
    known = list(names)
    return [rule for rule in rules if not any(rule.is_for(name) for name in known)]
