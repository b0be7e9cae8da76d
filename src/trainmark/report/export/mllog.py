"""MLPerf's log lines: `:::MLLOG` and a JSON object, readable by the public package mlperf-logging.

The keys are MLPerf's. The log is not a valid submission, which also needs facts that a run does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainmark.analyse.table import without_replaced
from trainmark.report.exporting import (
    REPLACED,
    Exported,
    ExportFormat,
    devices_per_node,
    main_metric,
    num_nodes,
    timed_evaluations,
)
from trainmark.report.limits import describe_limits, known_speed
from trainmark.store.rows import RunRow
from trainmark.units import to_json

_BENCHMARKS = {"resnet50": "resnet", "mask_rcnn": "maskrcnn"}
"""MLPerf's name of the benchmark, where it has one."""
_FILE = "trainmark/report/export/mllog.py"


def export(rows: Sequence[RunRow]) -> Exported:
    kept = without_replaced(rows)
    files = {f"{row.id}.log": "".join(_lines(row)) for row in kept}
    left_out = {row.id: REPLACED for row in rows if row not in kept}
    return Exported(files=files, stream="".join(files.values()), left_out=left_out)


EXPORT = ExportFormat(
    name="mllog",
    summary=":::MLLOG lines of MLPerf training",
    export=export,
)


def _lines(row: RunRow) -> Iterator[str]:
    begin = row.started_unix_s or 0.0
    speed = known_speed(row)
    name = row.workload or row.model
    yield _line(begin, "submission_benchmark", _BENCHMARKS.get(name or "", name))
    yield _line(begin, "submission_platform", row.machine)
    yield _line(begin, "number_of_nodes", num_nodes(row))
    yield _line(begin, "accelerators_per_node", devices_per_node(row))
    yield _line(begin, "global_batch_size", _global_batch(row))
    yield _line(begin, "seed", row.seed)
    yield _line(begin, "run_start", None, event="INTERVAL_START")
    yield from _evaluations(row, begin)
    end = begin + (row.wall_s if row.wall_s is not None else float(row.seconds.sum()))
    if speed is not None:
        metadata = {"unit": f"{row.unit}/s", "step_num": len(row.seconds)}
        yield _line(end, "tracked_stats", {"throughput": speed}, metadata=metadata)
    status = {"status": "success" if row.outcome == "ok" else "aborted", "reason": row.reason, **describe_limits(row)}
    yield _line(end, "run_stop", None, event="INTERVAL_END", metadata=status)


def _evaluations(row: RunRow, begin: float) -> Iterator[str]:
    """`eval_accuracy` is a single metric in MLPerf; other metrics are tracked statistics with their name."""
    main = main_metric(row)
    for time_s, evaluation in timed_evaluations(row):
        metric, value = evaluation.get("metric"), evaluation.get("value")
        metadata = {"epoch_num": evaluation.get("epoch"), "step_num": evaluation.get("step"), "metric": metric}
        if metric == main:
            yield _line(begin + time_s, "eval_accuracy", value, metadata=metadata)
        else:
            yield _line(begin + time_s, "tracked_stats", {str(metric): value}, metadata=metadata)


def _global_batch(row: RunRow) -> int | None:
    if row.batch_size_per_device is None or row.devices is None:
        return None
    return row.batch_size_per_device * row.devices


def _line(
    unix_s: float, key: str, value: Any, *, event: str = "POINT_IN_TIME", metadata: Mapping[str, Any] | None = None
) -> str:
    document = {
        "namespace": "",
        "time_ms": round(1000 * unix_s),
        "event_type": event,
        "key": key,
        "value": value,
        "metadata": {"file": _FILE, "lineno": 0, **(metadata or {})},
    }
    # ASCII, because that package reads files as Latin-1.
    return f":::MLLOG {to_json(document, is_ascii=True)}\n"
