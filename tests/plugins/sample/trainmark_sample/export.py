"""An export: one line for each run, `id workload outcome`."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report.exporting import Exported, ExportFormat
from trainmark.store.rows import RunRow


def export(rows: Sequence[RunRow]) -> Exported:
    text = "".join(f"{row.id} {row.workload} {row.outcome}\n" for row in rows)
    return Exported(files={"runs.txt": text}, stream=text)


EXPORT = ExportFormat(name="sample-lines", summary="one line for each run: id, workload, outcome", export=export)
