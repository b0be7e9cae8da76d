"""What `check --update` says: what changed in the baseline, or why nothing was written."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from trainmark.analyse.accepted import Accepted
from trainmark.analyse.accepting import Change, Refusal
from trainmark.analyse.tolerance import Metric
from trainmark.report.gate import say_change
from trainmark.report.layout import fold, print_rows
from trainmark.units import ABSENT, format_count, format_rate, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADINGS = ("cell", "before", "now", "change", "runs", "spread")
_IS_RIGHT = (False, True, True, True, True, True)


def say_update(changes: Sequence[Change], kept: Sequence[Accepted], refusals: Sequence[Refusal], path: str) -> str:
    """The answer in one sentence."""
    if refusals:
        others = "" if len(refusals) == 1 else f"; {len(refusals) - 1} more refused"
        return plain(f"nothing written to {path}: {refusals[0].name}: {refusals[0].why}{others}")
    if not changes:
        return plain(f"nothing written to {path}: nothing measured")
    added = sum(change.old is None for change in changes)
    parts = [f"{added} added"] if added else []
    parts += [f"{len(changes) - added} replaced"] if len(changes) > added else []
    parts += [f"{len(kept)} kept as before"] if kept else []
    return plain(f"{path}: {format_count(len(changes) + len(kept), 'cells')}: {', '.join(parts)}")


def print_update(
    changes: Sequence[Change], kept: Sequence[Accepted], refusals: Sequence[Refusal], path: str, console: Console
) -> None:
    console.print(Text(fold(say_update(changes, kept, refusals, path), console, indent=0)))
    for refusal in refusals[1:]:
        console.print(Text(fold(plain(f"  {refusal.name}: {refusal.why}"), console, indent=2)))
    if changes and not refusals:
        rows = [[plain(text) for text in _row(change)] for change in changes]
        print_rows(_HEADINGS, rows, console, is_right=_IS_RIGHT)


def _row(change: Change) -> list[str]:
    values = change.new.values[Metric.THROUGHPUT]
    return [
        change.new.name,
        ABSENT if change.old is None else format_rate(fmean(change.old.values[Metric.THROUGHPUT]), change.old.unit),
        format_rate(fmean(values), change.new.unit),
        "new" if change.ratio is None else say_change(change.ratio),
        str(len(values)),
        f"{_spread(values):.2%}",
    ]


def _spread(values: Sequence[float]) -> float:
    """Standard deviation between runs, to choose a tolerance by."""
    return stdev(values) / fmean(values)


def describe_update(
    changes: Sequence[Change], kept: Sequence[Accepted], refusals: Sequence[Refusal], path: str
) -> dict[str, Any]:
    return {
        "answer": say_update(changes, kept, refusals, path),
        "baseline": path,
        "is_written": bool(changes) and not refusals,
        "changes": [
            {
                "cell": {"name": change.new.name, "work": change.new.work, "unit": change.new.unit},
                "is_new": change.old is None,
                "throughput": list(change.new.values[Metric.THROUGHPUT]),
                "ratio": change.ratio,
                "spread": _spread(change.new.values[Metric.THROUGHPUT]),
            }
            for change in changes
        ],
        "refused": [{"name": refusal.name, "why": refusal.why.to_json()} for refusal in refusals],
    }
