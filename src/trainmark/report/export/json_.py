"""The `--json` contract, as `trainmark show --json` prints it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from trainmark.analyse.results import describe_runs
from trainmark.report.exporting import Exported
from trainmark.store.rows import RunRow

SUMMARY = "every number of every run, one document"


def export(rows: Sequence[RunRow]) -> Exported:
    document = {"schema": 1, "results": describe_runs(rows)}
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return Exported(files={"results.json": text}, stream=text)
