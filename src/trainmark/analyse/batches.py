"""Runs that belong together in a gate: of one cell, one code and one machine, measured by one command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.comparable import why_left_out
from trainmark.analyse.identity import Identity, identity_of
from trainmark.analyse.line_laws import find_far_repeats
from trainmark.analyse.table import build_lines, without_replaced
from trainmark.analyse.tolerance import Metric
from trainmark.messages.laws import far_repeat
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow

_LOWER_IS_BETTER = frozenset({"loss", "error", "err", "perplexity", "ppl", "wer", "cer", "mae", "mse", "rmse"})
"""Words in the names of metrics that are not accuracies."""
_SHORT = 12


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Never empty, in the order of time."""

    work: str
    rows: tuple[RunRow, ...]

    @property
    def ok(self) -> tuple[RunRow, ...]:
        return tuple(row for row in self.rows if row.outcome == "ok")

    @property
    def failed(self) -> tuple[RunRow, ...]:
        return tuple(row for row in self.rows if row.outcome not in (None, "ok"))

    @property
    def measured(self) -> tuple[RunRow, ...]:
        """Runs with a throughput that counts."""
        left_out = {row.id for row, _ in self.left_out}
        return tuple(row for row in self.ok if row.id not in left_out)

    @cached_property
    def left_out(self) -> tuple[tuple[RunRow, Message], ...]:
        """Runs that ended well, but whose throughput does not count, and why.

        To be far from repeats in earlier batches is no reason: whether this batch differs is what a check asks.
        """
        far = {run_id for run_id, _ in find_far_repeats(build_lines(self.ok))}
        found = ((row, why_left_out(row, ignored_laws=() if row.id in far else (far_repeat.code,))) for row in self.ok)
        return tuple((row, why) for row, why in found if why is not None)

    @property
    def first(self) -> RunRow:
        """A run that knows its environment, if there is one."""
        return (self.ok or self.rows)[0]

    @property
    def last_run(self) -> str:
        return self.rows[-1].id

    @property
    def identity(self) -> Identity:
        return identity_of(self.first)


def split_batches(rows: Sequence[RunRow]) -> list[Batch]:
    """In the order of their newest run; a retried attempt is left out, and only its last attempt counts.

    A batch is one sweep: `run` again measures again, and is judged by itself. Imported logs belong to no sweep; those
    of one folder are a batch.
    """
    kept = without_replaced(rows)
    works = {row.cell_id: identity_of(row).work for row in kept if row.outcome == "ok"}
    groups: dict[tuple[object, ...], list[RunRow]] = {}
    for row in kept:
        own = identity_of(row)
        # A run that failed early knows less about itself: its cell says what it would have been.
        work = own.work if row.outcome == "ok" else works.get(row.cell_id, own.work)
        groups.setdefault((work or row.cell_id, row.sweep or own.place or own.code), []).append(row)
    found = [
        Batch(work=str(work), rows=tuple(same)) for (work, _), all_of in groups.items() for same in _by_identity(all_of)
    ]
    return sorted(found, key=lambda batch: (batch.rows[-1].started_unix_s or 0.0, batch.last_run))


def _by_identity(rows: Sequence[RunRow]) -> Iterable[list[RunRow]]:
    """A sweep that was continued after a commit has two codes. A failed run may not know its own: it joins the last."""
    groups: dict[tuple[str | None, str | None], list[RunRow]] = {}
    for row in rows:
        if row.outcome == "ok":
            own = identity_of(row)
            groups.setdefault((own.machine, own.code), []).append(row)
    for row in rows:
        if row.outcome != "ok":
            own = identity_of(row)
            key = (own.machine, own.code)
            groups.setdefault(key if key in groups or not groups else next(reversed(groups)), []).append(row)
    return (sorted(group, key=lambda row: (row.started_unix_s or 0.0, row.id)) for group in groups.values())


def latest_batches(batches: Sequence[Batch]) -> list[Batch]:
    """The newest of each cell and machine."""
    newest = {(batch.work, batch.identity.machine): batch for batch in batches}
    return list(newest.values())


def find_outdated(latest: Sequence[Batch]) -> list[Batch]:
    """Those of another commit than the newest of all: they say nothing about what was measured last.

    Only where both commits are known. Commands and our own workloads have different repositories.
    """
    in_time = sorted(latest, key=lambda batch: batch.rows[-1].started_unix_s or 0.0)
    newest = {batch.first.source: state for batch in in_time if (state := state_of(batch)) is not None}
    return [batch for batch in latest if state_of(batch) not in (None, newest.get(batch.first.source))]


def state_of(batch: Batch) -> str | None:
    """The commit, and whether there were changes on top of it; None if unknown."""
    code = batch.identity.facts["code"]
    commit, changes = code.get("commit"), code.get("changes")
    return None if commit is None else commit[:_SHORT] + (f" with changes {changes[:_SHORT]}" if changes else "")


# -- values ------------------------------------------------------------------------------------------------------------


def values_of(batch: Batch, metric: Metric) -> tuple[float, ...]:
    """One value per run that has it."""
    found = (_value(row, metric, main_metric(batch.ok)) for row in batch.measured)
    return tuple(value for value in found if value is not None)


def _value(row: RunRow, metric: Metric, main: str | None) -> float | None:
    if metric is Metric.THROUGHPUT:
        estimate = estimate_run(row)
        return None if estimate is None else estimate.value
    if metric is Metric.MEMORY:
        return None if row.peak_memory_bytes is None else float(row.peak_memory_bytes)
    if metric is Metric.FIRST_STEP:
        return row.first_step_s
    own = [item["value"] for item in row.evals if item["metric"] == main and item["value"] is not None]
    return float(own[-1]) if main is not None and own else None


def main_metric(rows: Sequence[RunRow]) -> str | None:
    """The first metric of the evaluations that is better if it is higher: the first of a workload is its main one."""
    names = (str(item["metric"]) for row in rows for item in row.evals if item["metric"] is not None)
    return next((name for name in names if _LOWER_IS_BETTER.isdisjoint(re.split("[^a-z]+", name.lower()))), None)
