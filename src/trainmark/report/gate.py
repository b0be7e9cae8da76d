"""What `check` says: one sentence, a table, and a line for everything that is not simply a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from trainmark.analyse.gate_result import CellResult, Finding, GateResult, Status
from trainmark.analyse.tolerance import Metric
from trainmark.report.layout import fold, lay_out
from trainmark.units import ABSENT, format_bytes, format_count, format_number, format_rate, format_seconds, plain

HEADINGS = ("cell", "metric", "baseline", "now", "change", "allowed", "result")
_IS_RIGHT = (False, True, True, True, True, False)
_INDENT = 2
METRICS = {
    Metric.THROUGHPUT: "throughput",
    Metric.MEMORY: "peak memory",
    Metric.FIRST_STEP: "first step",
    Metric.ACCURACY: "accuracy",
}
STATUSES = {
    Status.FAILED: "run failed",
    Status.REGRESSION: "regression",
    Status.NOT_COMPARABLE: "not comparable",
    Status.NOT_MEASURED: "not measured",
    Status.INCONCLUSIVE: "inconclusive",
    Status.PASS: "pass",
    Status.NEW: "new",
    Status.SKIPPED: "skipped",
}


def answer(result: GateResult) -> str:
    """The whole result in one sentence."""
    passed, asked = len(result.with_status(Status.PASS)), [cell for cell in result.cells if _is_asked(cell)]
    worst = result.with_status(result.status)
    rest = "".join(
        f"; {format_count(len(found), 'cells')} {said}"
        for status, said in ((Status.NEW, "not in the baseline"), (Status.SKIPPED, "of another machine"))
        if (found := result.with_status(status))
    )
    if result.status is Status.PASS:
        return plain(f"pass: no regression in {format_count(passed, 'cells')}{rest}")
    if not worst:
        return plain(f"nothing measured: no cell of the baseline could be judged{rest}")
    cell, finding = worst[0], first_problem(worst[0])
    count = f"{len(worst)} of {format_count(len(asked), 'cells')}: " if len(asked) > 1 else ""
    return plain(f"{STATUSES[result.status]}: {count}{cell.name}: {say(finding)}{rest}")


def _is_asked(cell: CellResult) -> bool:
    return cell.status not in (Status.NEW, Status.SKIPPED)


def first_problem(cell: CellResult) -> Finding:
    return next(finding for finding in cell.findings if finding.status is cell.status)


def say(finding: Finding) -> str:
    """throughput: 4.9% slower than the baseline ...; the sentences of the other metrics begin with their names."""
    return f"throughput: {finding.why}" if finding.metric is Metric.THROUGHPUT else str(finding.why)


def print_gate(result: GateResult, console: Console) -> None:
    """Under the name of each cell stand its metrics, and below them what the numbers do not say."""
    console.print(Text(fold(answer(result), console, indent=0)))
    if not result.cells:
        return
    table = [HEADINGS, *(row for cell in result.cells for row in rows_of(cell))]
    heading, *laid_out = lay_out([row[1:] for row in table], width=console.width - _INDENT, is_right=_IS_RIGHT)
    rows = iter(laid_out)
    said = [first_problem(cell) for cell in result.with_status(result.status)[:1]]  # the answer has it
    _print_indented(heading, console, style="bold")
    for cell in result.cells:
        console.print(Text(fold(plain(cell.name), console, indent=0)))
        for _ in cell.findings:
            _print_indented(next(rows), console)
        notes = [say(finding) for finding in notes_of(cell) if finding not in said]
        for note in (*notes, *cell.notes):
            console.print(Text(fold(plain(f"{' ' * 2 * _INDENT}{note}"), console, indent=2 * _INDENT)))


def _print_indented(lines: Sequence[str], console: Console, *, style: str = "") -> None:
    console.print(Text("\n".join(" " * _INDENT + line for line in lines), style=style), soft_wrap=True)


def notes_of(cell: CellResult) -> Iterator[Finding]:
    """What the table does not say: all but a plain pass."""
    return (finding for finding in cell.findings if finding.status is not Status.PASS or is_faster(finding))


def is_faster(finding: Finding) -> bool:
    return finding.why.code == "gate-faster"


def rows_of(cell: CellResult) -> list[list[str]]:
    """The name stands only in the first row of a cell."""
    rows = [[plain(text) for text in (cell.name, *_describe(finding, cell.unit))] for finding in cell.findings]
    return [row if number == 0 else ["", *row[1:]] for number, row in enumerate(rows)]


def _describe(finding: Finding, unit: str) -> list[str]:
    return [
        METRICS[finding.metric] if finding.metric is not None else ABSENT,
        _say_value(finding.before, finding.metric, unit),
        _say_value(finding.now, finding.metric, unit),
        ABSENT if finding.ratio is None else say_change(finding.ratio),
        say_allowed(finding),
        "faster" if is_faster(finding) else STATUSES[finding.status],
    ]


def say_change(ratio: float) -> str:
    text = f"{ratio - 1:+.1%}"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text


def say_allowed(finding: Finding) -> str:
    if finding.tolerance is None or finding.metric is None:
        return ABSENT
    return f"{'-' if finding.metric.is_better_higher else '+'}{100 * finding.tolerance:.3g}%"


def _say_value(value: float | None, metric: Metric | None, unit: str) -> str:
    if metric is Metric.THROUGHPUT:
        return format_rate(value, unit)
    if metric is Metric.MEMORY:
        return format_bytes(value)
    return format_seconds(value) if metric is Metric.FIRST_STEP else format_number(value)


# -- --json ------------------------------------------------------------------------------------------------------------


def describe_gate(result: GateResult) -> dict[str, Any]:
    return {
        "answer": answer(result),
        "status": str(result.status),
        "exit_code": result.exit_code,
        "cells": [_describe_cell(cell) for cell in result.cells],
    }


def _describe_cell(cell: CellResult) -> dict[str, Any]:
    return {
        "cell": {"name": cell.name, "work": cell.work, "unit": cell.unit},
        "status": str(cell.status),
        "run_ids": list(cell.run_ids),
        "notes": [note.to_json() for note in cell.notes],
        "findings": [_describe_finding(finding) for finding in cell.findings],
    }


def _describe_finding(finding: Finding) -> dict[str, Any]:
    ratio = None if finding.ratio is None else {"value": finding.ratio, "ci95": finding.ci95 and list(finding.ci95)}
    return {
        "metric": finding.metric and str(finding.metric),
        "status": str(finding.status),
        "baseline": finding.before,
        "now": finding.now,
        "ratio": ratio,
        "tolerance": finding.tolerance,
        "runs": list(finding.num_runs),
        "spread": finding.spread,
        "why": finding.why.to_json(),
    }
