"""`check`: the latest runs of every cell against the accepted ones, metric by metric.

Throughput is judged by `gate_throughput.py`, with the error between runs. The other metrics have one rule: the median
of the new runs may not be worse than the worst accepted run by more than the tolerance. A cell of the baseline that was
not measured, or only on another machine, is never a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from trainmark.analyse.accepted import Accepted, Baseline
from trainmark.analyse.batches import Batch, main_metric, state_of, values_of
from trainmark.analyse.gate_result import CellResult, Finding, GateResult, Status, sort_cells
from trainmark.analyse.gate_throughput import Case, judge_throughput
from trainmark.analyse.identity import Identity, differences
from trainmark.analyse.naming import cell_name
from trainmark.analyse.tolerance import Metric, tolerances_of
from trainmark.messages import gate as messages

_NAMES = {Metric.MEMORY: "peak memory", Metric.FIRST_STEP: "time to first step", Metric.ACCURACY: "accuracy"}
_LEAST_SECONDS = 1.0
"""A first step that comes later by less is not a regression, whatever the fraction."""

Key = tuple[str, str | None]
"""Work and machine."""


def judge_gate(
    baseline: Baseline,
    latest: Sequence[Batch],
    history: Mapping[Key, Sequence[Batch]],
    *,
    outdated: Sequence[Batch] = (),
) -> GateResult:
    """`latest`: the newest batch of each cell and machine; `history`: the earlier ones of the same.

    `outdated`: batches of cells that were not measured with the newest code.
    """
    measured = {key_of(batch): batch for batch in latest}
    accepted = {cell.key: cell for cell in baseline.cells}
    cases = [
        Case(accepted=cell, batch=measured[key], history=_others(cell, history.get(key, ())), tolerance=tolerance)
        for key, cell in accepted.items()
        if key in measured
        and (tolerance := tolerances_of(cell.name, baseline.rules)[Metric.THROUGHPUT]) is not None
        and not _problems(cell, measured[key])
    ]
    throughputs = {case.accepted.key: finding for case, finding in zip(cases, judge_throughput(cases), strict=True)}
    found = [
        *(_judge_cell(cell, measured[key], throughputs.get(key), baseline)
          for key, cell in accepted.items() if key in measured),
        *(_unmeasured(cell, baseline, measured, outdated) for key, cell in accepted.items() if key not in measured),
        *(_unaccepted(batch, baseline, measured) for key, batch in measured.items() if key not in accepted),
    ]  # fmt: skip
    return GateResult(cells=sort_cells([cell for cell in found if cell is not None]))


def _others(cell: Accepted, earlier: Sequence[Batch]) -> tuple[Batch, ...]:
    """Without the runs of the baseline itself, which must not count twice."""
    return tuple(batch for batch in earlier if batch.last_run != cell.last_run)


def key_of(batch: Batch) -> Key:
    return batch.work, batch.identity.machine


# -- a cell that is in the baseline and was measured -------------------------------------------------------------------


def _judge_cell(cell: Accepted, batch: Batch, throughput: Finding | None, baseline: Baseline) -> CellResult:
    problems = _problems(cell, batch)
    if problems:
        return _result(cell.name, cell.unit, batch, problems)
    tolerances = tolerances_of(cell.name, baseline.rules)
    others = (
        _judge_metric(cell, batch, metric, tolerance)
        for metric in (Metric.MEMORY, Metric.FIRST_STEP, Metric.ACCURACY)
        if (tolerance := tolerances[metric]) is not None and cell.values.get(metric)
    )
    findings = [*([throughput] if throughput is not None else []), *others]
    if not findings:  # every metric is turned off
        findings = [Finding(metric=None, status=Status.SKIPPED, why=messages.all_off())]
    notes = (messages.unknown_machine(),) if cell.machine is None else ()
    return replace(_result(cell.name, cell.unit, batch, findings), notes=notes)


def _problems(cell: Accepted | None, batch: Batch) -> list[Finding]:
    """Why the batch cannot be judged at all."""
    if batch.failed:
        return [_failed(batch)]
    unfinished = [row for row in batch.rows if row.outcome is None]
    if unfinished:
        why = messages.unfinished(run=unfinished[0].id)
        return [Finding(metric=None, status=Status.NOT_MEASURED, why=why)]
    if cell is not None and batch.last_run == cell.last_run:
        return [Finding(metric=None, status=Status.NOT_MEASURED, why=messages.stale(run=batch.last_run))]
    return []


def _failed(batch: Batch) -> Finding:
    first = batch.failed[0]
    why = messages.failed(
        failed=len(batch.failed), runs=len(batch.rows), run=first.id, outcome=first.outcome or "", why=first.why
    )
    return Finding(metric=None, status=Status.FAILED, why=why, num_runs=(0, len(batch.rows)))


def _judge_metric(cell: Accepted, batch: Batch, metric: Metric, tolerance: float) -> Finding:
    before, now = cell.values[metric], values_of(batch, metric)
    num_runs = len(before), len(now)
    if metric is Metric.ACCURACY and cell.metric_name != (own := main_metric(batch.ok)) and own is not None:
        why = messages.other_metric(now=own, before=cell.metric_name or "")
        return Finding(metric=metric, status=Status.NOT_COMPARABLE, why=why, num_runs=num_runs)
    worst = min(before) if metric.is_better_higher else max(before)
    if not now:
        why = messages.no_metric(metric=_NAMES[metric])
        return Finding(metric=metric, status=Status.NOT_MEASURED, why=why, before=worst, num_runs=num_runs)
    middle = median(now)
    change = middle / worst - 1
    is_worse = change < -tolerance if metric.is_better_higher else change > tolerance
    if metric is Metric.FIRST_STEP and middle - worst < _LEAST_SECONDS:
        is_worse = False
    say = messages.worse if is_worse else messages.no_worse
    return Finding(
        metric=metric,
        status=Status.REGRESSION if is_worse else Status.PASS,
        why=say(metric=_NAMES[metric], change=change, tolerance=tolerance),
        before=worst,
        now=middle,
        ratio=middle / worst,
        tolerance=tolerance,
        num_runs=num_runs,
    )


# -- a cell on one side only -------------------------------------------------------------------------------------------


def _unmeasured(
    cell: Accepted, baseline: Baseline, measured: Mapping[Key, Batch], outdated: Sequence[Batch]
) -> CellResult | None:
    """None where the runs of the cell on another machine say it themselves."""
    for batch in outdated:
        if key_of(batch) == cell.key and batch.last_run != cell.last_run:
            newest = next((state for batch in measured.values() if (state := state_of(batch)) is not None), "unknown")
            why = messages.outdated(commit=state_of(batch) or "unknown", newest=newest)
            return _absent(cell, Finding(metric=None, status=Status.NOT_MEASURED, why=why))
    machines = {machine for _, machine in measured}
    if cell.machine not in machines and machines & baseline.machines():
        why = messages.skipped(machine=cell.facts.get("host") or cell.machine)
        return _absent(cell, Finding(metric=None, status=Status.SKIPPED, why=why))
    if any(work == cell.work for work, _ in measured):
        return None
    return _absent(cell, Finding(metric=None, status=Status.NOT_MEASURED, why=messages.not_measured()))


def _unaccepted(batch: Batch, baseline: Baseline, measured: Mapping[Key, Batch]) -> CellResult | None:
    name, unit = cell_name(batch.first), batch.first.unit
    problems = _problems(None, batch)
    elsewhere = baseline.of_work(batch.work)
    if not problems and elsewhere:
        if all(cell.key in measured for cell in elsewhere):
            return None  # judged on the machine of the baseline; this is one more machine
        problems = [_other_machine(batch, elsewhere)]
    new = Finding(metric=None, status=Status.NEW, why=messages.new_cell(), num_runs=(0, len(batch.ok)))
    return _result(name, unit, batch, problems or [new])


def _other_machine(batch: Batch, elsewhere: Sequence[Accepted]) -> Finding:
    own = batch.identity
    cell = elsewhere[0]
    before = Identity(
        work=own.work,
        code=own.code,
        machine=cell.machine,
        facts={"work": {}, "code": {}, "machine": cell.machine_facts},
    )
    now = Identity(
        work=own.work,
        code=own.code,
        machine=own.machine,
        facts={"work": {}, "code": {}, "machine": own.facts["machine"]},
    )
    listed = [
        f"{item.name} {item.one or 'unknown'} -> {item.other or 'unknown'}"
        for item in differences(before, now)
        if item.is_identifying
    ]
    why = messages.other_machine(differences=listed)
    return Finding(metric=None, status=Status.NOT_COMPARABLE, why=why, num_runs=(0, len(batch.ok)))


# -- results -----------------------------------------------------------------------------------------------------------


def _result(name: str, unit: str, batch: Batch, findings: Iterable[Finding]) -> CellResult:
    return CellResult(
        name=name,
        work=batch.work,
        unit=unit,
        findings=tuple(findings),
        run_ids=tuple(row.id for row in batch.rows),
        wall_s=sum(row.wall_s or 0.0 for row in batch.rows),
    )


def _absent(cell: Accepted, finding: Finding) -> CellResult:
    return CellResult(name=cell.name, work=cell.work, unit=cell.unit, findings=(finding,))
