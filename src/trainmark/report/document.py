"""The `--json` contract: one document of all results, assembled from the text of each."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import trainmark
from trainmark import analyse, messages, units
from trainmark.analyse.analysis import analyse_steps, own_warnings
from trainmark.analyse.identity import identity_of
from trainmark.analyse.laws import is_admitted, marks_of
from trainmark.analyse.origin import find_origin
from trainmark.analyse.table import Line, build_lines
from trainmark.analyse.warnings import Warnings, check_rows
from trainmark.report import columns, provenance
from trainmark.report.columns import describe_estimate, describe_numbers, describe_values, only_finite
from trainmark.store.rows import Analyser, Derived, RunRow
from trainmark.units import to_json

_BEGIN, _END = "{", "\n}"


def describe_runs(rows: Sequence[RunRow], *, protocol: str | None = None) -> list[dict[str, Any]]:
    """Each run as an object, with what was found by comparing and averaging runs, and the answer of a protocol."""
    beside = _look_beside(rows)
    return [describe_numbers(row) | _describe_rest(row, beside, protocol) for row in rows]


def render_runs(rows: Sequence[RunRow], *, protocol: str | None = None) -> list[str]:
    """The same, each as JSON text. The index keeps most of that text, so that it is not parsed and written again."""
    beside = _look_beside(rows)
    return [_render(row, beside, protocol) for row in rows]


@dataclass(frozen=True, kw_only=True)
class _Beside:
    """What a run has only among others, by run id."""

    warnings: Warnings
    lines: Mapping[str, Line]
    """Of the runs that are averaged."""


def _look_beside(rows: Sequence[RunRow]) -> _Beside:
    lines = {run.id: line for line in build_lines(rows) for run in line.runs if run.outcome == "ok"}
    return _Beside(warnings=check_rows(rows), lines=lines)


def describe_lines(rows: Sequence[RunRow]) -> list[dict[str, Any]]:
    """Each line of `show` once: its identity, its pooled estimate, and the runs behind it."""
    return [_describe_line(line) for line in build_lines(rows) if line.estimate is not None]


def _describe_line(line: Line) -> dict[str, Any]:
    own = identity_of(line.first)
    return {
        "cell_id": line.first.cell_id,
        "workload": line.first.workload,
        "model": line.first.model,
        "identity": {"work": own.work, "code": own.code, "machine": own.machine},
        **only_finite(_describe_pooled(line) or {}),
        "run_ids": [run.id for run in line.runs if run.outcome == "ok"],
    }


def _describe_pooled(line: Line | None) -> dict[str, Any] | None:
    """The estimate over all runs of the same identity; null for a run that is not part of one."""
    if line is None or line.estimate is None:
        return None
    marked = [run.id for run in line.runs if run.outcome == "ok" and not is_admitted(run)]
    described = describe_estimate(line.estimate, line.first.unit) or {}
    return {**described, "runs": line.num_ok, "marked_runs": marked}


def _render(row: RunRow, beside: _Beside, protocol: str | None) -> str:
    text = row.load_document() or _render_numbers(row)
    rest = to_json(_describe_rest(row, beside, protocol), indent=1)
    # Two objects become one: a comma replaces the end of the first and the beginning of the second.
    return f"{text.removesuffix(_END)},{rest.removeprefix(_BEGIN)}"


def _render_numbers(row: RunRow) -> str:
    return to_json(describe_values(row), indent=1, is_finite=False)


def _describe_rest(row: RunRow, beside: _Beside, protocol: str | None) -> dict[str, Any]:
    """What the index does not keep, since it depends on other runs or on the command line."""
    marks = [mark.to_json() for mark in marks_of(row)]
    rest: dict[str, Any] = {
        "warnings": [*own_warnings(row), *beside.warnings.get(row.id, [])],
        "marks": marks,
        "admitted": is_admitted(row),
    }
    rest["pooled"] = only_finite(_describe_pooled(beside.lines.get(row.id)))
    if protocol is not None:
        from trainmark.analyse.protocols import apply_protocol

        rest["protocol"] = only_finite(apply_protocol(protocol, row))
    return rest


def render_results(rows: Sequence[RunRow], *, protocol: str | None = None, **more: Any) -> str:
    """The whole document of the verbs that show results."""
    return render_document(render_runs(rows, protocol=protocol), pooled=describe_lines(rows), **more)


def render_document(results: Sequence[str], **more: Any) -> str:
    """The text that `to_json` would give for {"schema": 2, "results": [...], **more}; each result is JSON already."""
    listed = ",\n  ".join(result.replace("\n", "\n  ") for result in results)
    text = f"[\n  {listed}\n ]" if results else "[]"
    rest = to_json(more, indent=1).removeprefix("{").removesuffix("\n}") if more else ""
    return f'{{\n "schema": 2,\n "results": {text}{"," if more else ""}{rest}\n}}\n'


def result_analyser() -> Analyser:
    """Lets the index keep the analysis and the text of each run.

    Its version is a hash of the code, so that every change of the code analyses the runs again. This takes 1 ms.
    """
    digest = hashlib.sha256(trainmark.__version__.encode())
    packages = (Path(package.__path__[0]).glob("*.py") for package in (analyse, messages))
    files = (Path(str(module.__file__)) for module in (units, columns, provenance))
    for path in sorted(itertools.chain(*packages, files)):
        digest.update(path.read_bytes())
    return Analyser(version=digest.hexdigest()[:16], analyse=_derive)


def _derive(row: RunRow) -> Derived:
    found = analyse_steps(row)
    analysis, powers = found.to_json(), {kind: power.to_json() for kind, power in found.powers.items()}
    row = replace(row, analysis=analysis, powers=powers)
    return Derived(analysis=analysis, powers=powers, origin=find_origin(row), document=_render_numbers(row))
