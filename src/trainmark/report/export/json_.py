"""The `--json` contract, as `trainmark show --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.analyse.results import describe_runs
from trainmark.report.exporting import Exported
from trainmark.store.rows import RunRow
from trainmark.units import to_json

SUMMARY = "every number of every run, one document"


def export(rows: Sequence[RunRow]) -> Exported:
    document = {"schema": 1, "results": describe_runs(rows)}
    text = to_json(document, indent=1) + "\n"
    return Exported(files={"results.json": text}, stream=text)
