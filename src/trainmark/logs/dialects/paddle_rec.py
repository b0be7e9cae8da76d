"""Paddle's parameter-server jobs on CPUs: `Epoch: 0, using time 708.9 second, ips 15516.2 example/sec.`, of one node.

Each node trains its share of the data and writes its own log. Word2Vec nodes have equal shares, so the sum over nodes
is the number of nodes times this one (it is within 0.4% of the published value). The click models have nodes of unequal
speed: this log tells its own node and no more, so its rate is kept as it is and a warning says so.
"""

from __future__ import annotations

from dataclasses import replace

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_step, read_wholes
from trainmark.logs.printed import NUMBER, patterns
from trainmark.logs.record import LogRecord


def _read(groups: Groups) -> LogRecord | None:
    record = read_step(groups)
    if record is None:
        return None
    # Seconds are those of a whole epoch, which is what one record covers.
    return replace(record, scope="node" if record.unit == "words" else "global")


DIALECT = Dialect(
    name="paddle-rec",
    summary="PaddleRec parameter-server jobs: ips of one node after each epoch",
    framework="paddle",
    meaning=Meaning.WHOLE,
    unit="examples",
    default_precision="fp32",
    steps=(
        Probe(
            anchor=b"using time ",
            patterns=patterns(
                rb"using time (?P<seconds>"
                + NUMBER
                + rb") second, ips (?P<rate>"
                + NUMBER
                + rb") (?P<unit>\w{1,20})/s",
                rb"\bEpoch: (?P<epoch>\d{1,9})",
            ),
            read=_read,
        ),
    ),
    others=(
        Probe(
            anchor=b"trainers: ",
            patterns=patterns(rb"\btrainers: (?P<nodes>\d{1,6})"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"avg_samples: ",
            patterns=patterns(rb"\bavg_samples: (?P<batch_size_per_device>\d{1,9})"),
            read=read_wholes,
            where="ends",
        ),
    ),
)
