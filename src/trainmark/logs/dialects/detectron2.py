"""Detectron2: `eta: 6:09:40  iter: 39  total_loss: 1.9 ... time: 0.2626  data_time: ...`; time is the mean so far."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_step, read_wholes
from trainmark.logs.printed import NUMBER, number, patterns
from trainmark.logs.record import LogRecord

_STEP = patterns(
    # maskrcnn-benchmark, its parent, has a mean in brackets behind it.
    rb"\btime: (?P<seconds>" + NUMBER + rb")(?![\d.]| \()",
    rb"\biter: (?P<step>\d{1,12})",
    rb"\btotal_loss: (?P<loss>" + NUMBER + rb")",
    rb"\b(?:lr|LR): {1,4}(?P<lr>" + NUMBER + rb")",
    rb"\bmax_mem: (?P<memory_mb>\d{1,9})M",
)


def _read(groups: Groups) -> LogRecord | None:
    return read_step(groups) if "step" in groups else None


def _read_ap(groups: Groups) -> LogRecord | None:
    value = number(groups.get("value"))
    return None if value is None else LogRecord(kind="eval", metric="AP", value=value)


DIALECT = Dialect(
    name="detectron2",
    summary="Detectron2: seconds of an iteration, mean since the start",
    framework="torch",
    unit="images",
    meaning=Meaning.RUN,
    first_step=0,
    steps=(Probe(anchor=b"  iter: ", patterns=_STEP, read=_read),),
    others=(
        Probe(
            anchor=b"copypaste: ", patterns=patterns(rb"copypaste: (?P<value>\d{1,3}\.\d{1,8}),[\d.,]"), read=_read_ap
        ),
        Probe(
            anchor=b"IMS_PER_BATCH",
            patterns=patterns(rb"IMS_PER_BATCH: (?P<global_batch_size>\d{1,9})"),
            read=read_wholes,
            where="ends",
        ),
        Probe(
            anchor=b"num_gpus=",
            patterns=patterns(rb"\bnum_gpus=(?P<devices_per_node>\d{1,6}), num_machines=(?P<nodes>\d{1,6})"),
            read=read_wholes,
            where="ends",
        ),
        Probe(
            anchor=b"AMP:",
            patterns=patterns(rb"AMP:\s{1,12}ENABLED: (?P<amp>True|False|true|false)"),
            read=lambda groups: {"precision": "amp" if groups["amp"].lower() == b"true" else "fp32"},
            where="ends",
            num_lines=2,
        ),
    ),
)
