"""NVIDIA DLLogger's JSON lines: `DLLL {"timestamp": ..., "step": [0, 12], "data": {"train.total_ips": 370.1}}`."""

from __future__ import annotations

from typing import Any

from trainmark.logs.dialect import Dialect, Groups, Probe, finite, patterns, read_object
from trainmark.logs.record import LogRecord, RecordKind

_RATES = {
    "train.total_ips": "images",
    "train.ips": "images",
    "total_ips": "images",
    "throughput_train": "sequences",
    "training_sequences_per_second": "sequences",
    "train_throughput": "images",
    "tokens/s": "tokens",
    "train_perf_fps": "images",
}
_METRICS = {"val.top1": "top1", "BBOX_mAP": "bbox_mAP", "MASK_mAP": "mask_mAP", "val_accuracy": "accuracy"}


def _read(groups: Groups) -> LogRecord | None:
    line = read_object(groups["json"])
    data = line.get("data")
    if not isinstance(data, dict):
        return None
    where = line.get("step")
    time_s = finite(line.get("timestamp"))
    epoch, step = _position(where)
    for name, unit in _RATES.items():
        rate = finite(data.get(name))
        if rate and rate > 0:
            kind: RecordKind = "step" if step is not None else "stated"
            loss = finite(data.get("train.loss", data.get("loss")))
            found: dict[str, Any] = {"rate": rate, "unit": unit, "loss": loss, "name": name}
            return LogRecord(kind=kind, step=step, epoch=epoch, time_s=time_s, **found)
    for name, metric in _METRICS.items():
        value = finite(data.get(name))
        if value is not None and step is None:
            return LogRecord(kind="eval", metric=metric, value=value, epoch=epoch, time_s=time_s)
    return None


def _position(where: Any) -> tuple[float | None, int | None]:
    """`step` is [epoch, iteration], [epoch], an iteration, or empty for a summary."""
    parts = where if isinstance(where, list) else [where]
    numbers = [part for part in parts if isinstance(part, int) and not isinstance(part, bool)][:2]
    if len(numbers) == 2:
        return float(numbers[0]), numbers[1]
    if len(numbers) == 1:
        return (float(numbers[0]), None) if isinstance(where, list) else (None, numbers[0])
    return None, None


DIALECT = Dialect(
    name="dllogger-json",
    summary="NVIDIA DLLogger JSON lines (DLLL {...})",
    framework=None,
    unit="images",
    steps=(Probe(anchor=b"DLLL {", patterns=patterns(rb"DLLL (?P<json>\{.*)"), read=_read),),
)
