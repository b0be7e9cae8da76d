"""The `--json` contract, as `trainmark show --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.analyse.scaling import Asked, build_studies
from trainmark.analyse.table import build_lines
from trainmark.report.document import render_results
from trainmark.report.exporting import Exported, ExportFormat
from trainmark.report.scaling import describe_studies
from trainmark.store.rows import RunRow


def export(rows: Sequence[RunRow], asked: Sequence[Asked] = ()) -> Exported:
    studies = describe_studies(build_studies(build_lines(rows), asked))
    text = render_results(rows, scaling=studies)
    return Exported(files={"results.json": text}, stream=text)


EXPORT = ExportFormat(
    name="json",
    summary="every number of every run, one document",
    export=export,
    export_with_sweeps=export,
)
