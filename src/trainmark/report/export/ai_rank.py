"""AI-Rank's folder: a log of `AI-Rank-log` lines for each run, summary_metrics.json and system_information.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainmark.analyse.origin import origin_of
from trainmark.analyse.table import Line, build_lines, without_replaced
from trainmark.analyse.training import time_to_train
from trainmark.report.export.paddle_benchmark import file_word, model_word
from trainmark.report.exporting import (
    REPLACED,
    Exported,
    ExportFormat,
    devices_per_node,
    main_metric,
    num_nodes,
    shorten,
    timed_evaluations,
)
from trainmark.report.limits import describe_limits, known_speed
from trainmark.store.rows import RunRow
from trainmark.units import format_bytes, plain, to_json


def export(rows: Sequence[RunRow]) -> Exported:
    kept = without_replaced(rows)
    files = {path: "".join(_log(row)) for path, row in _paths(kept).items()}
    files["summary_metrics.json"] = _document(_summary(build_lines(rows)))
    files["system_information.json"] = _document(_system(kept))
    return Exported(files=files, stream=None, left_out={row.id: REPLACED for row in rows if row not in kept})


EXPORT = ExportFormat(
    name="ai-rank",
    summary="AI-Rank logs, summary_metrics.json and system_information.json, in a folder",
    export=export,
)


def _paths(rows: Sequence[RunRow]) -> dict[str, RunRow]:
    """<model>/log/GPUx8.log, as AI-Rank requires; with batch, precision and a number if several runs share the name."""
    plain_names = [_path(row) for row in rows]
    found: dict[str, RunRow] = {}
    for row, name in zip(rows, plain_names, strict=True):
        path = name
        if plain_names.count(name) > 1:
            path = f"{name}-bs{row.batch_size_per_device or 'unknown'}-{file_word(row.precision or 'unknown')}"
        number, unique = 2, path
        while f"{unique}.log" in found:
            unique, number = f"{path}_{number}", number + 1
        found[f"{unique}.log"] = row
    return found


def _path(row: RunRow) -> str:
    kind = "CPU" if row.device == "cpu" else "GPU"
    return f"{model_word(row)}/log/{kind}x{row.devices or 'unknown'}"


def _log(row: RunRow) -> Iterator[str]:
    begin = row.started_unix_s or 0.0
    end = begin + (row.wall_s if row.wall_s is not None else float(row.seconds.sum()))
    yield _line(begin, "load_data, checksum:unknown")
    yield _line(begin, "test_begin")
    main = main_metric(row)
    for time_s, evaluation in timed_evaluations(row):
        if evaluation.get("metric") != main:
            continue  # the line does not name its metric, so a second metric would be taken for the first
        epoch = evaluation.get("epoch")
        count = "unknown" if epoch is None else f"{epoch:g}"
        yield _line(begin + time_s, f"eval_accuracy:{evaluation.get('value')}, total_epoch_cnt:{count}")
    if row.outcome != "ok":
        return  # no test_finish and no speed, like the log of a run that was interrupted
    yield _line(end, "test_finish")
    time_to_train_s = time_to_train(row)
    if time_to_train_s is not None:
        yield _line(end, f"target_quality_time:{time_to_train_s:.2f}sec")
    yield _line(end, f"total_use_time:{end - begin:.2f}sec")
    speed = known_speed(row)
    if speed is not None:
        yield _line(end, f"avg_ips:{shorten(speed)}{plain(row.unit)}/sec")


def _line(unix_s: float, text: str) -> str:
    return f"- AI-Rank-log {unix_s:.3f} {text}\n"


def _summary(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """AI-Rank's own speed-up is of the time to train; `speed-up` is of the throughput."""
    times = [_time_to_train(line) for line in lines]
    bases = _find_baselines(lines, times)
    return [
        _summarise(line) | _training_speedup(line, time_s, bases.get(_kind(line)))
        for line, time_s in zip(lines, times, strict=True)
    ]


def _summarise(line: Line) -> dict[str, Any]:
    metric, accuracy = _accuracy(line)
    return {
        "model": line.first.workload or line.first.model,
        "framework": line.first.framework,
        "devices": line.first.devices,
        "batch_size_per_device": line.first.batch_size_per_device,
        "precision": line.first.precision,
        "throughput": shorten(line.known.value) if line.known else None,
        "unit": f"{line.first.unit}/s",
        "metric": metric,
        "accuracy": accuracy,
        "speed-up": shorten(line.speedup.value) if line.speedup else None,
        "speed-up_base_devices": line.baseline.devices if line.baseline else None,
        "speed-up_same_environment": None if line.baseline is None else not line.has_other_baseline,
        "runs": line.num_ok,
        "failed_runs": len(line.problems),
        **_describe_limits(line),
    }


def _describe_limits(line: Line) -> dict[str, Any]:
    """Why there is no throughput, and which runs break a law; nothing for most."""
    found: dict[str, Any] = {}
    if line.estimate is not None and line.estimate.is_too_noisy:
        found["spread"] = [shorten(bound) for bound in line.estimate.spread] if line.estimate.spread else None
    behind = [*line.runs, *([line.baseline] if line.baseline is not None else [])]
    marks = {run.id: limits["marks"] for run in behind if "marks" in (limits := describe_limits(run))}
    return found | ({"marks": marks} if marks else {})


def _accuracy(line: Line) -> tuple[str | None, float | None]:
    """The last value of the main metric, in the last run that has one."""
    for run in reversed(line.runs):
        if run.outcome == "ok" and run.evals:
            metric = main_metric(run)
            return metric, [found.get("value") for found in run.evals if found.get("metric") == metric][-1]
    return None, None


def _time_to_train(line: Line) -> float | None:
    """Mean over the runs that reached the target."""
    found = [time_to_train(run) for run in line.runs if run.outcome == "ok"]
    times = [time_s for time_s in found if time_s is not None]
    return sum(times) / len(times) if times else None


Kind = tuple[object, ...]
Baseline = tuple[int, float]
"""Number of devices, and the seconds to train on them."""


def _kind(line: Line) -> Kind:
    """What must be equal for a speed-up of the time to train: all but the devices, including target and software."""
    row = line.first
    return (row.workload or row.model, row.framework, row.precision, row.batch_size_per_device,
            row.recipe, row.size, row.device, row.machine, row.data, row.epochs, *sorted(row.until_target.items()),
            origin_of(row).software)  # fmt: skip


def _find_baselines(lines: Sequence[Line], times: Sequence[float | None]) -> dict[Kind, Baseline]:
    """The fewest devices with a time to train; the shortest time if several lines have as few."""
    bases: dict[Kind, Baseline] = {}
    for line, time_s in zip(lines, times, strict=True):
        if line.first.devices and time_s:
            own = (line.first.devices, time_s)
            bases[_kind(line)] = min(own, bases.get(_kind(line), own))
    return bases


def _training_speedup(line: Line, time_s: float | None, base: Baseline | None) -> dict[str, Any]:
    is_known = base is not None and time_s and line.first.devices and line.first.devices > base[0]
    return {
        "Time2Train": None if time_s is None else shorten(time_s),
        "Time2Train_speed-up": shorten(base[1] / time_s) if is_known and base and time_s else None,
        "Time2Train_speed-up_base_devices": base[0] if is_known and base else None,
    }


def _system(rows: Sequence[RunRow]) -> dict[str, Any]:
    """Of the largest run. What run folders do not have is null, to be filled in by hand: disk, submitter, hardware."""
    row = max(rows, key=lambda row: (row.outcome == "ok", row.devices or 0))
    facts = row.environment
    is_gpu = row.device != "cpu"
    memory = facts.get("memory_bytes")
    accelerator_memory = facts.get("device_memory_bytes")
    software = [
        facts.get("framework"),
        *(f"{name} {facts[name]}" for name in ("cuda", "cudnn", "nccl") if facts.get(name)),
    ]
    return {
        "accelerator_memory_capacity": format_bytes(accelerator_memory) if accelerator_memory else None,
        "accelerator_name": row.machine if is_gpu else None,
        "accelerators_per_node": devices_per_node(row) if is_gpu else 0,
        "host_memory_capacity": format_bytes(memory) if memory else None,
        "host_processor_core_count": facts.get("num_cores"),
        "host_processor_name": facts.get("cpu"),
        "host_processors_per_node": facts.get("num_processors"),
        "host_storage_capacity": None,
        "host_storage_type": None,
        "number_of_nodes": num_nodes(row),
        "operating_system": facts.get("system"),
        "software_stack": ", ".join(str(part) for part in software if part) or None,
        "submitter": None,
        "hardware_name": None,
        "hardware_type": None,
    }


def _document(value: Any) -> str:
    return to_json(value, indent=1) + "\n"
