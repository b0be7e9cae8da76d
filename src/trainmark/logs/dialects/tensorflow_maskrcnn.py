"""NGC's TensorFlow Mask R-CNN: `Average throughput: 39.3 samples/sec` is the measurement, global.

Its many `throughput:` lines are single looks with one decimal, taken wherever a hook ran (the first is 0.1); they are
 kept as `trace` and are no records.
"""

from __future__ import annotations

from dataclasses import replace

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_step
from trainmark.logs.printed import NUMBER, patterns
from trainmark.logs.record import LogRecord


def _read_look(groups: Groups) -> LogRecord | None:
    record = read_step(groups)
    return None if record is None else replace(record, kind="trace")


DIALECT = Dialect(
    name="tensorflow-maskrcnn",
    summary="NGC TensorFlow Mask R-CNN: average throughput of the run",
    framework="tensorflow",
    meaning=Meaning.WHOLE,
    steps=(
        Probe(
            anchor=b"Average throughput: ",
            patterns=patterns(rb"Average throughput: (?P<rate>" + NUMBER + rb") (?P<unit>\w{1,20})/sec"),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b" throughput: ",
            patterns=patterns(rb"(?<!Average) throughput: (?P<rate>" + NUMBER + rb") (?P<unit>\w{1,20})/sec"),
            read=_read_look,
        ),
    ),
)
