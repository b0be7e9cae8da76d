"""Several runs, analysed: what `--json` of `show`, `import` and `report` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainmark.analyse.analysis import own_warnings
from trainmark.analyse.result import describe_numbers, describe_run, only_finite
from trainmark.analyse.table import check_rows
from trainmark.store.rows import RunRow
from trainmark.units import to_json


def describe_runs(rows: Sequence[RunRow], *, protocol: str | None = None) -> list[dict[str, Any]]:
    """All of them, with what only shows when they stand side by side, and the answer of a protocol."""
    warnings = check_rows(rows)
    described = [describe_run(row) for row in rows]
    for row, result in zip(rows, described, strict=True):
        result["warnings"] += warnings.get(row.id, [])
        if protocol is not None:
            result["protocol"] = _apply(protocol, row)
    return described


def render_runs(rows: Sequence[RunRow], *, protocol: str | None = None) -> list[str]:
    """The same, each as the text of its JSON: that of a run is kept, so that it is written without being read."""
    beside = check_rows(rows)
    return [_render(row, beside.get(row.id, []), protocol) for row in rows]


def render_numbers(row: RunRow) -> str:
    """The text of all but the warnings, which the index keeps."""
    return to_json(describe_numbers(row), indent=1)


def _render(row: RunRow, beside: list[dict[str, str]], protocol: str | None) -> str:
    text = row.load_document() or render_numbers(row)
    rest: dict[str, Any] = {"warnings": [*own_warnings(row), *beside]}
    if protocol is not None:
        rest["protocol"] = _apply(protocol, row)
    # Two objects as one: the end of the first and the beginning of the second become a comma.
    return f"{text.removesuffix(_END)},{to_json(rest, indent=1).removeprefix(_BEGIN)}"


_BEGIN, _END = "{", "\n}"


def _apply(protocol: str, row: RunRow) -> dict[str, Any]:
    from trainmark.analyse.protocols import apply_protocol

    answer: dict[str, Any] = only_finite(apply_protocol(protocol, row))
    return answer
