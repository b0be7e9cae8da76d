"""Several runs, analysed: what `--json` of `show`, `import` and `report` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainmark.analyse.protocols import apply_protocol
from trainmark.analyse.result import describe_run
from trainmark.analyse.table import check_rows
from trainmark.store.rows import RunRow


def describe_runs(rows: Sequence[RunRow], *, protocol: str | None = None) -> list[dict[str, Any]]:
    """All of them, with what only shows when they stand side by side, and the answer of a protocol."""
    warnings = check_rows(rows)
    described = [describe_run(row) for row in rows]
    for row, result in zip(rows, described, strict=True):
        result["warnings"] += warnings.get(row.id, [])
        if protocol is not None:
            result["protocol"] = apply_protocol(protocol, row)
    return described
