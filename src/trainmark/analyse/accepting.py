"""What `check --update` accepts into a baseline, what it refuses, and what changes by it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from trainmark.analyse.accepted import Accepted
from trainmark.analyse.batches import Batch, main_metric, values_of
from trainmark.analyse.gate_throughput import name_left_out, why_no_number
from trainmark.analyse.identity import framework_version, is_identifying
from trainmark.analyse.naming import cell_name
from trainmark.analyse.tolerance import Metric
from trainmark.messages import gate as messages
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow

_LEAST_RUNS = 2
_ADVISED_RUNS = 3
_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class Refusal:
    name: str
    why: Message
    is_failed_run: bool


@dataclass(frozen=True, kw_only=True)
class Change:
    """How the throughput of a cell changes in the baseline."""

    new: Accepted
    old: Accepted | None
    """None for a new block."""

    @property
    def ratio(self) -> float | None:
        if self.old is None:
            return None
        return fmean(self.new.values[Metric.THROUGHPUT]) / fmean(self.old.values[Metric.THROUGHPUT])


def accept(batch: Batch) -> Accepted | Refusal:
    name = cell_name(batch.first)
    why = _refuse(batch)
    if why is not None:
        return Refusal(name=name, why=why, is_failed_run=bool(batch.failed))
    first, own = batch.first, batch.identity
    values = {metric: found for metric in Metric if (found := values_of(batch, metric))}
    facts = {
        "commit": _commit(batch),
        "framework": framework_version(batch.first),
        "host": own.facts["machine"].get("host"),
        "measured": _time(batch.rows[-1]),
    }
    return Accepted(
        name=name,
        work=batch.work,
        machine=own.machine,
        machine_facts={name: text for name, text in own.facts["machine"].items() if is_identifying(name)},
        unit=first.unit,
        values=values,
        metric_name=main_metric(batch.ok) if Metric.ACCURACY in values else None,
        suite=first.suite,
        last_run=batch.last_run,
        facts={key: text for key, text in facts.items() if text},
    )


def _refuse(batch: Batch) -> Message | None:
    """A baseline of doubtful numbers would pass doubtful numbers for ever."""
    for row in batch.rows:
        if row.outcome is None:
            return messages.unfinished(run=row.id)
    if batch.failed:
        first = batch.failed[0]
        return messages.failed(
            failed=len(batch.failed), runs=len(batch.rows), run=first.id, outcome=first.outcome or "", why=first.why
        )
    why = name_left_out(batch) or why_no_number(batch)
    if why is not None:
        return messages.no_number(why=why)
    if len(batch.measured) < _LEAST_RUNS:
        return messages.too_few_runs(runs=len(batch.measured), least=_LEAST_RUNS, advised=_ADVISED_RUNS)
    return None


def list_changes(old: Sequence[Accepted], new: Sequence[Accepted]) -> list[Change]:
    before = {cell.key: cell for cell in old}
    return [Change(new=cell, old=before.get(cell.key)) for cell in new]


def _commit(batch: Batch) -> str | None:
    facts = batch.identity.facts["code"]
    commit = facts.get("commit")
    return None if commit is None else commit[:_DIGITS] + (" with changes" if facts.get("changes") else "")


def _time(row: RunRow) -> str | None:
    if row.started_unix_s is None:
        return None
    return datetime.datetime.fromtimestamp(row.started_unix_s, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
