"""One run, analysed: what `--json` prints of it."""

from __future__ import annotations

import math
from typing import Any

from trainmark.analyse.analysis import analysis_of, own_warnings
from trainmark.analyse.communication import describe_communication
from trainmark.analyse.estimate import Estimate
from trainmark.analyse.training import time_to_train
from trainmark.store.rows import RunRow

_PLAIN = ("id", "source", "dialect", "workload", "model", "framework", "recipe", "precision", "size", "device", "nodes",
          "devices", "batch_size_per_device", "data", "epochs", "lr", "until_target", "resumed_from",
          "sweep", "attempt", "retry_of", "pauses", "seed", "repeat", "suite", "cell_id", "machine",
          "outcome", "reason", "wall_s", "peak_memory_bytes")  # fmt: skip


def describe_run(row: RunRow) -> dict[str, Any]:
    return {**describe_numbers(row), "warnings": own_warnings(row)}


def describe_numbers(row: RunRow) -> dict[str, Any]:
    """All but the warnings, to which other runs may add."""
    found = analysis_of(row)
    numbers = {
        **{name: getattr(row, name) for name in _PLAIN},
        "records": found.num_records if row.num_records is None else row.num_records,
        "throughput": describe_estimate(found.estimate, row.unit),
        "median": found.median,
        "mean_of_rates": found.mean_of_rates,
        "last": found.last,
        "evals": list(row.evals),
        "loss": [list(pair) for pair in zip(row.loss_steps.tolist(), row.losses.tolist(), strict=True)],
        "time_to_train_s": time_to_train(row),
        "speeds": found.speeds,
        "communication": describe_communication(row),
        "stated": row.log.get("stated"),
    }
    return {name: only_finite(value) for name, value in numbers.items()}


def only_finite(value: Any) -> Any:
    """The same with None for what is no number: JSON has no word for it, and one run must not hide the others."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: only_finite(item) for name, item in value.items()}
    return [only_finite(item) for item in value] if isinstance(value, list | tuple) else value


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
