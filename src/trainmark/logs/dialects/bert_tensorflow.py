"""NGC's TensorFlow BERT: `DLL .. - Iteration: 28  throughput_train : 536.6 seq/s ..`, global."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Probe, read_stated, read_step
from trainmark.logs.printed import NUMBER, patterns
from trainmark.logs.record import LogRecord

_RATE = rb"\bthroughput_train : (?P<rate>" + NUMBER + rb")(?: (?P<unit>\w{1,20})/s)?"


def _read(groups: Groups) -> LogRecord | None:
    return read_step(groups) if "step" in groups else read_stated("throughput_train")(groups)


DIALECT = Dialect(
    name="bert-tensorflow",
    summary="NGC TensorFlow BERT: global sequences/s of an iteration",
    framework="tensorflow",
    unit="sequences",
    steps=(
        Probe(
            anchor=b"throughput_train : ",
            patterns=patterns(
                _RATE, rb"\bIteration: (?P<step>\d{1,12})", rb"\btotal_loss : (?P<loss>" + NUMBER + rb")"
            ),
            read=_read,
        ),
    ),
)
