"""A table for a spreadsheet: one line per run, with empty fields for what is not known.

An attempt that was repeated has no line: counted in a spreadsheet, it would be a failure. `json` has every attempt.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from trainmark.analyse.table import without_replaced
from trainmark.report.columns import csv_columns
from trainmark.report.document import describe_runs
from trainmark.report.exporting import REPLACED, Exported, ExportFormat
from trainmark.store.rows import RunRow
from trainmark.units import plain


def export(rows: Sequence[RunRow]) -> Exported:
    columns = csv_columns()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heading for column in columns for heading in column.csv)
    kept = without_replaced(rows)
    for result in describe_runs(kept):
        writer.writerow(_cell(take(result[column.name])) for column in columns for take in column.csv.values())
    left_out = {row.id: REPLACED for row in rows if row not in kept}
    return Exported(files={"results.csv": out.getvalue()}, stream=out.getvalue(), left_out=left_out)


EXPORT = ExportFormat(
    name="csv",
    summary="one line for each run, for a spreadsheet",
    export=export,
)


def _cell(value: Any) -> Any:
    """Quote a text that a spreadsheet would take for a formula: it may come from someone else's log."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
