"""The `--json` contract, as `trainmark show --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.analyse.results import describe_runs
from trainmark.analyse.scaling import build_studies
from trainmark.analyse.table import build_lines
from trainmark.report.exporting import Exported
from trainmark.report.scaling import describe_studies
from trainmark.store.rows import RunRow
from trainmark.units import to_json

SUMMARY = "every number of every run, one document"


def export(rows: Sequence[RunRow]) -> Exported:
    studies = describe_studies(build_studies(build_lines(rows)))
    document = {"schema": 1, "results": describe_runs(rows), "scaling": studies}
    text = to_json(document, indent=1) + "\n"
    return Exported(files={"results.json": text}, stream=text)
