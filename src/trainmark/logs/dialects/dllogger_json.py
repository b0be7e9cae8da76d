"""NVIDIA DLLogger's JSON lines: `DLLL {"timestamp": ..., "step": [0, 12], "data": {"train.total_ips": 370.1}}`."""

from __future__ import annotations

from typing import Any

from trainmark.logs.dialect import Dialect, Found, Groups, Probe
from trainmark.logs.printed import finite, patterns, read_object
from trainmark.logs.record import SIXTEEN_BITS, LogRecord, RecordKind

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


def _read(groups: Groups) -> Found:
    line = read_object(groups["json"])
    data = line.get("data")
    if not isinstance(data, dict):
        return None
    where = line.get("step")
    if where == "PARAMETER":
        return _parameters(data)
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
            # Printed is the epoch's index.
            epochs = None if epoch is None else epoch + 1
            return LogRecord(kind="eval", metric=metric, value=value, epoch=epochs, time_s=time_s)
    return None


def _parameters(data: dict[str, Any]) -> dict[str, Any]:
    """What the script was told; a batch is that of one device, and with MXNet's kv_store that of all."""
    batch = "global_batch_size" if "kv_store" in data else "batch_size_per_device"
    found: dict[str, Any] = {batch: _count(data.get("batch_size")), "devices": _count(data.get("world_size"))}
    if isinstance(data.get("arch"), str):
        found["model"] = data["arch"][:60]
    switches = {name: data[name] for name in ("amp", "fp16") if isinstance(data.get(name), bool)}
    if switches:
        sixteen = "amp" if switches.get("amp") else SIXTEEN_BITS
        found["precision"] = sixteen if any(switches.values()) else "fp32"
    return found


def _count(value: Any) -> int | None:
    number = finite(value)
    return int(number) if number is not None and 0 < number < 1e9 and number == int(number) else None


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
