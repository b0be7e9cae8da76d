"""The `--json` contract, as `trainmark show --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.analyse.results import render_runs
from trainmark.analyse.scaling import build_studies
from trainmark.analyse.table import build_lines
from trainmark.report.document import render_document
from trainmark.report.exporting import Exported
from trainmark.report.scaling import describe_studies
from trainmark.store.rows import RunRow

SUMMARY = "every number of every run, one document"


def export(rows: Sequence[RunRow]) -> Exported:
    studies = describe_studies(build_studies(build_lines(rows)))
    text = render_document(render_runs(rows), scaling=studies)
    return Exported(files={"results.json": text}, stream=text)
