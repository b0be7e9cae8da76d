"""A table for a spreadsheet: one line for each run, empty where nothing is known."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from trainmark.analyse.results import describe_runs
from trainmark.report.exporting import Exported, ExportFormat
from trainmark.store.rows import RunRow
from trainmark.units import plain

_COLUMNS = ("id", "source", "dialect", "workload", "model", "framework", "recipe", "precision", "size", "device",
            "machine", "nodes", "devices", "batch_size_per_device", "data", "epochs", "seed", "repeat", "outcome",
            "reason", "records")  # fmt: skip
_RATES = ("median", "mean_of_rates", "last")
_ENDS = ("time_to_train_s", "wall_s", "peak_memory_bytes")


def export(rows: Sequence[RunRow]) -> Exported:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_header())
    writer.writerows(_line(result) for result in describe_runs(rows))
    return Exported(files={"results.csv": out.getvalue()}, stream=out.getvalue())


EXPORT = ExportFormat(
    name="csv",
    summary="one line for each run, for a spreadsheet",
    export=export,
)


def _header() -> list[str]:
    speed = ["throughput", "unit", "ci95_low", "ci95_high", "steps", "warmup_steps", "method"]
    return [*_COLUMNS, *speed, *_RATES, *_ENDS, "last_metric", "last_value", "warnings"]


def _line(result: dict[str, Any]) -> list[Any]:
    speed = result["throughput"] or {}
    low, high = speed.get("ci95") or (None, None)
    measured = [speed.get("value"), speed.get("unit"), low, high]
    measured += [speed.get(name) for name in ("steps", "warmup_steps", "method")]
    last = result["evals"][-1] if result["evals"] else {}
    warnings = " ".join(dict.fromkeys(warning["code"] for warning in result["warnings"]))
    values = [result[name] for name in _COLUMNS] + measured + [result[name] for name in (*_RATES, *_ENDS)]
    return [_cell(value) for value in (*values, last.get("metric"), last.get("value"), warnings)]


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a quote in front: it may come from a stranger's log."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
