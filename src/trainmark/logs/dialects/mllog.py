"""MLPerf: `:::MLLOG {"key": "eval_accuracy", "value": 0.759, "time_ms": 1600000000000, "metadata": {...}}`."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Found, Groups, Probe
from trainmark.logs.printed import finite, patterns, read_object
from trainmark.logs.record import LogRecord

_MOMENTS = {"run_start": "test_begin", "run_stop": "test_finish"}
_FACTS = {
    "global_batch_size": "global_batch_size",
    "train_samples": "num_train_samples",
    "number_of_nodes": "nodes",
    "accelerators_per_node": "devices_per_node",
}
_SPEEDS = ("throughput", "samples_per_sec", "train_throughput")


def _read(groups: Groups) -> Found:
    line = read_object(groups["json"])
    key, value = line.get("key"), line.get("value")
    time_ms = finite(line.get("time_ms"))
    time_s = None if time_ms is None else time_ms / 1000
    extra = line.get("metadata")
    metadata = extra if isinstance(extra, dict) else {}
    epoch = finite(metadata.get("epoch_num"))
    step = metadata.get("step", metadata.get("step_num"))
    step = step if isinstance(step, int) and not isinstance(step, bool) else None
    if key in _MOMENTS:
        return LogRecord(kind="moment", name=_MOMENTS[key], time_s=time_s)
    if key in _FACTS:
        amount = finite(value)
        return {_FACTS[key]: int(amount)} if amount and 0 < amount < 1e15 else None
    if key == "eval_accuracy":
        # Mask R-CNN has two: {"BBOX": 0.38, "SEGM": 0.34}.
        name, number = ("bbox_mAP", value.get("BBOX")) if isinstance(value, dict) else ("accuracy", value)
        metric = finite(number)
        if metric is None:
            return None
        return LogRecord(kind="eval", metric=name, value=metric, epoch=epoch, step=step, time_s=time_s)
    return _read_speed(key, value, step, epoch, time_s)


def _read_speed(key: object, value: object, step: int | None, epoch: float | None, time_s: float | None) -> Found:
    speeds = value if key == "tracked_stats" and isinstance(value, dict) else {key: value}
    rate = next((found for name in _SPEEDS if (found := finite(speeds.get(name)))), None)
    if rate is None or rate <= 0:
        return None
    return LogRecord(kind="step", rate=rate, step=step, epoch=epoch, time_s=time_s)


DIALECT = Dialect(
    name="mllog",
    summary="MLPerf logging (:::MLLOG {...}): evaluations, run_start, run_stop, throughput where it is tracked",
    framework=None,
    priority=-1,
    steps=(Probe(anchor=b":::MLLOG {", patterns=patterns(rb":::MLLOG (?P<json>\{.*)"), read=_read, strength=3),),
)
