"""A run folder to a row. Any folder can be read: half-written, killed at any byte, or still running."""

from __future__ import annotations

import fcntl
import math
from pathlib import Path
from typing import Any

import numpy as np

from trainmark import records
from trainmark.records import Json, Kind, Outcome
from trainmark.store.rows import RunRow

_KILLED = "the controller ended before the run did; the steps so far are kept"


def read_run(folder: Path) -> RunRow | None:
    """None where the folder holds no run.json: not ours."""
    run = records.read_json(folder / records.RUN_FILE)
    if run is None or not isinstance(run.get("cell"), dict):
        return None
    cell: Json = run["cell"]
    ending = _read_ending(folder)
    environment = records.read_json(folder / records.ENVIRONMENT_FILE) or {}
    found = _read_records(folder / records.rank_file(0))
    devices = _product(cell.get("nodes"), cell.get("devices_per_node"))
    return RunRow(
        id=folder.name,
        cell_id=str(run.get("cell_id", "")),
        suite=run.get("suite"),
        source="trainmark",
        dialect=None,
        workload=cell.get("workload"),
        model=run.get("model"),
        framework=cell.get("framework"),
        recipe=cell.get("recipe"),
        precision=cell.get("precision"),
        size=cell.get("size"),
        device=cell.get("device"),
        nodes=cell.get("nodes"),
        devices=devices,
        batch_size_per_device=cell.get("batch_size_per_device"),
        data=cell.get("data"),
        epochs=cell.get("epochs"),
        repeat=cell.get("repeat"),
        unit=str(run.get("unit", "samples")),
        outcome=ending["outcome"],
        reason=ending["reason"],
        started_unix_s=run.get("created_unix_s"),
        wall_s=ending.get("wall_s"),
        environment=environment,
        machine=environment.get("device_name") or environment.get("cpu"),
        **found,
    )


def _read_records(path: Path) -> dict[str, Any]:
    seconds: list[float] = []
    samples: list[float] = []
    evals: list[Json] = []
    warnings: list[dict[str, str]] = []
    peak: int | None = None
    for record in records.read_records(path):
        kind = record["kind"]
        if kind == Kind.STEP:
            step = _read_step(record)
            if step is not None:
                seconds.append(step[0])
                samples.append(step[1])
        elif kind == Kind.EVAL:
            evals.append({key: record.get(key) for key in ("step", "epoch", "time_s", "metric", "value")})
        elif kind == Kind.WARNING:
            warnings.append({"code": str(record.get("code")), "message": str(record.get("message"))})
        elif kind == Kind.PHASE:
            peak = record.get("peak_memory_bytes", peak)
    return {
        "seconds": np.array(seconds),
        "samples": np.array(samples),
        "evals": tuple(evals),
        "warnings": tuple(warnings),
        "peak_memory_bytes": peak,
    }


def _read_step(record: Json) -> tuple[float, float] | None:
    """Seconds and samples; None for a record that is not as the worker writes it."""
    pair = (record.get("seconds"), record.get("samples"))
    if not all(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in pair):
        return None
    return float(pair[0]), float(pair[1])  # type: ignore[arg-type]


def _read_ending(folder: Path) -> Json:
    ending = records.read_json(folder / records.EXIT_FILE)
    if ending is not None:
        return {
            "outcome": str(ending.get("outcome")),
            "reason": str(ending.get("reason")),
            "wall_s": ending.get("wall_s"),
        }
    if is_live(folder):
        return {"outcome": None, "reason": "still running"}
    return {"outcome": str(Outcome.KILLED), "reason": _KILLED}


def is_live(folder: Path) -> bool:
    """The supervisor holds a lock on output.log as long as it lives; the kernel lets go of it however it dies."""
    try:
        with (folder / records.OUTPUT_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _product(nodes: Any, devices: Any) -> int | None:
    return nodes * devices if isinstance(nodes, int) and isinstance(devices, int) else None
