"""The JSON line of PaddlePaddle's benchmark, with the file names its `run_benchmark.sh` uses.

A failed run has JOB_FAIL_FLAG 1 and FINAL_RESULT 0, since the format has no null. So has one whose speed is too noisy
to be a number; it keeps its loss, and `spread` has the ends of what its speed was. A slow run is not a failure: 0.7
samples per second is a result. An attempt that was repeated is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainmark.analyse.naming import short_model
from trainmark.analyse.table import without_replaced
from trainmark.report.exporting import REPLACED, Exported, ExportFormat, shorten
from trainmark.report.limits import describe_limits, known_speed
from trainmark.store.rows import RunRow
from trainmark.units import plain, to_json


@dataclass(frozen=True, kw_only=True)
class Mission:
    name: str
    direction: int
    """0 vision, 1 language, 2 recommendation."""
    is_total_batch: bool = False
    """`bs` counts the samples of all devices, as PSENet's `mp 64` does."""


MISSIONS = {
    "resnet50": Mission(name="图像分类", direction=0),
    "hrnet_w18": Mission(name="图像分割", direction=0),
    "mask_rcnn": Mission(name="目标检测", direction=0),
    "tsm": Mission(name="视频分类", direction=0),
    "psenet": Mission(name="OCR", direction=0, is_total_batch=True),
}
_PRECISIONS = {"amp": "fp16", "fp16": "pure_fp16"}
"""Their name of a precision, if it differs from ours. TF32 is never called fp32."""

_OUR_LOGS = ("trainmark", "command")
"""Sources whose logs are written next to the index file; an imported log stays where it is.

Of a workload that ended well the log is made from its steps; of a failure and of a command it is what was printed.
"""


def export(rows: Sequence[RunRow]) -> Exported:
    lines: dict[str, list[str]] = {}
    logs: dict[str, str] = {}
    texts: dict[str, str] = {}
    kept = without_replaced(rows)
    for row in kept:
        name = log_name(row)
        lines.setdefault(f"{name}_speed", []).append(_encode(describe(row)))
        # Repeats share the name, as in PaddlePaddle: the last one is kept.
        if row.source == "trainmark" and row.outcome == "ok":
            texts[name] = write_log(row)
        elif row.source in _OUR_LOGS:
            logs[name] = row.id
    files = {**{name: "".join(own) for name, own in lines.items()}, **texts}
    logs = {name: run_id for name, run_id in logs.items() if name not in texts}
    stream = "".join(_encode(describe(row)) for row in kept)
    return Exported(
        files=files, stream=stream, logs=logs, left_out={row.id: REPLACED for row in rows if row not in kept}
    )


EXPORT = ExportFormat(
    name="paddle-benchmark",
    summary="one JSON line for each run, as PaddlePaddle's run_benchmark.sh ends its _speed file",
    export=export,
)


def describe(row: RunRow) -> dict[str, Any]:
    speed = known_speed(row)
    mission = MISSIONS.get(row.workload or "")
    document: dict[str, Any] = {
        "log_file": log_name(row) if row.source in _OUR_LOGS else plain(row.source),
        "model_name": f"{file_word(row.dialect or 'trainmark')}_{_case(row)}",
        "mission_name": mission.name if mission else None,
        "direction_id": mission.direction if mission else None,
        "run_mode": _run_mode(row),
        "index": 1,
        "gpu_num": row.devices,
        "FINAL_RESULT": 0.0 if speed is None else shorten(speed),
        "JOB_FAIL_FLAG": 1 if speed is None else 0,
        "UNIT": f"{row.unit}/s",
    }
    if row.outcome == "ok" and len(row.losses):
        document["LOSS_RESULT"] = shorten(float(row.losses[-1]))
    if row.devices == 1:
        document |= {"log_with_profiler": None, "profiler_path": None}
    return document | describe_limits(row)


def write_log(row: RunRow) -> str:
    """The steps of a run in PaddlePaddle's words: our own workloads print none. `ips` is that of one device."""
    devices = row.devices or 1
    loss_of = dict(zip(row.loss_steps.tolist(), row.losses.tolist(), strict=True))
    head = f"model: {plain(row.model or row.workload or 'unknown')}, GPUs used: {devices}"
    lines = [f"{head}, batch_size: {row.batch_size_per_device}"]
    levels = {"amp": "use AMP to train", "fp16": "use AMP to train. AMP level = O2"}
    lines += [levels[row.precision]] if row.precision in levels else []
    facts = zip(row.steps.tolist(), row.seconds.tolist(), row.samples.tolist(), strict=True)
    for step, seconds, samples in facts:
        loss = f" loss: {loss_of[step]:.6g}," if step in loss_of else ""
        rate = samples / seconds / devices if seconds > 0 else 0.0
        lines.append(f"[TRAIN] iter: {step:.0f},{loss} batch_cost: {seconds:.6g} sec, ips: {rate:.6g} {row.unit}/sec")
    return "\n".join(lines) + "\n"


def log_name(row: RunRow) -> str:
    """<case>_<run_mode>_bs<bs>_<fp>_<gpus>: name of the log; with _speed, of the index file."""
    return f"{_case(row)}_{_run_mode(row)}_bs{_batch(row)}_{_precision(row)}_{row.devices or 'unknown'}"


def _case(row: RunRow) -> str:
    return f"{model_word(row)}_bs{_batch(row)}_{_precision(row)}"


def _batch(row: RunRow) -> int | str:
    if row.batch_size_per_device is None:
        return "unknown"
    mission = MISSIONS.get(row.workload or "")
    total = mission is not None and mission.is_total_batch
    return row.batch_size_per_device * (row.devices or 1) if total else row.batch_size_per_device


def _precision(row: RunRow) -> str:
    return _PRECISIONS.get(row.precision or "", file_word(row.precision or "unknown"))


def _run_mode(row: RunRow) -> str:
    return "mp" if row.devices is not None and row.devices > 1 else "sp"


def model_word(row: RunRow) -> str:
    """The workload, or the log's name of the model, or a command without the paths of its interpreter and script."""
    return file_word(row.workload or (short_model(row) if row.model else "unknown"))


def file_word(text: str) -> str:
    """A part of a file name: at most 60 letters, digits and a few signs, since it may come from someone else's log."""
    word = "".join(char if char.isalnum() or char in "._-" else "-" for char in plain(text)).lstrip(".")
    return word[:60] or "unknown"


def _encode(document: dict[str, Any]) -> str:
    return to_json(document) + "\n"
