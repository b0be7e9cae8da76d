"""One run, analysed: what `--json` prints of it."""

from __future__ import annotations

from typing import Any

from trainmark.analyse.checks import check_run
from trainmark.analyse.communication import describe_communication
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.imported import estimate_cumulative
from trainmark.analyse.rates import last_rate, mean_of_rates, median_rate
from trainmark.analyse.throughput import estimate_throughput
from trainmark.analyse.training import speeds, time_to_train
from trainmark.store.rows import RunRow

_PLAIN = ("id", "source", "dialect", "workload", "model", "framework", "recipe", "precision", "size", "device", "nodes",
          "devices", "batch_size_per_device", "data", "epochs", "lr", "until_target", "resumed_from",
          "pauses", "seed", "repeat", "suite", "cell_id", "machine",
          "outcome", "reason", "wall_s", "peak_memory_bytes")  # fmt: skip


def estimate_run(row: RunRow) -> Estimate | None:
    """None for a run without an `ok`: correctness gates speed."""
    if row.outcome != "ok" or len(row.seconds) == 0:
        return None
    if row.log.get("is_cumulative"):
        return estimate_cumulative(row)
    return estimate_throughput(row.seconds, row.samples)


def describe_run(row: RunRow) -> dict[str, Any]:
    has_steps = row.outcome == "ok" and len(row.seconds) > 0
    estimate = estimate_run(row)
    return {
        **{name: getattr(row, name) for name in _PLAIN},
        "records": len(row.seconds) if row.num_records is None else row.num_records,
        "throughput": describe_estimate(estimate, row.unit),
        "median": median_rate(row.seconds, row.samples) if has_steps else None,
        "mean_of_rates": mean_of_rates(row.seconds, row.samples) if has_steps else None,
        "last": last_rate(row.seconds, row.samples) if has_steps else None,
        "evals": list(row.evals),
        "loss": [list(pair) for pair in zip(row.loss_steps.tolist(), row.losses.tolist(), strict=True)],
        "time_to_train_s": time_to_train(row),
        "speeds": speeds(row),
        "communication": describe_communication(row),
        "stated": row.log.get("stated"),
        "warnings": [*row.warnings, *check_run(row, estimate)],
    }


def describe_estimate(estimate: Estimate | None, unit: str) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {
        "value": estimate.value,
        "unit": f"{unit}/s",
        "scope": "global",
        "ci95": list(estimate.ci95) if estimate.ci95 else None,
        "steps": estimate.num_steps,
        "warmup_steps": estimate.num_warmup_steps,
        "method": estimate.method,
    }
