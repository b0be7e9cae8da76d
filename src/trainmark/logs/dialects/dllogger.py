"""NVIDIA DLLogger, plain: `DLL 2021-.. - Epoch: 0 Iteration: 12 train.loss : 7.1 train.total_ips : 370.1 img/s`.

Its rates are global. NGC's TensorFlow prints `(0, 200) total_ips : 12667.8`, MXNet `train.ips : 1502.2 images/s`.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Probe, read_eval, read_stated, read_step
from trainmark.logs.printed import NUMBER, patterns
from trainmark.logs.record import LogRecord

_WHERE = (
    rb"\bEpoch: (?P<epoch>\d{1,9}) Iteration: (?P<step>\d{1,12})",
    rb"\((?P<epoch>\d{1,9}), (?P<step>\d{1,12})\)",
    rb"\btrain\.loss : (?P<loss>" + NUMBER + rb")",
)
_TOTAL = patterns(rb"(?:\btrain\.|(?<![\w.]))total_ips : (?P<rate>" + NUMBER + rb")(?: (?P<unit>\w{1,10})/s)?", *_WHERE)
_IPS = patterns(rb"\btrain\.ips : (?P<rate>" + NUMBER + rb") (?P<unit>\w{1,10})/s", *_WHERE)


def _read(groups: Groups) -> LogRecord | None:
    """A line without an iteration is the mean of an epoch or of the run, not a record."""
    return read_step(groups) if "step" in groups else None


def _stated(name: bytes) -> Probe:
    text = rb"Summary: .{0,400}?\b" + name.replace(b".", rb"\.") + rb" : (?P<rate>" + NUMBER + rb")"
    return Probe(anchor=b"Summary: ", patterns=patterns(text), read=read_stated(name.decode()))


_READ_TOP1 = read_eval("top1", is_index=True)


def _read_top1(groups: Groups) -> LogRecord | None:
    """Of an epoch; the summary says it once more."""
    return _READ_TOP1(groups) if "epoch" in groups else None


DIALECT = Dialect(
    name="dllogger",
    summary="NVIDIA DLLogger lines (NGC PyTorch, TensorFlow, MXNet): global ips of an iteration",
    framework=None,
    unit="images",
    steps=(
        Probe(anchor=b"total_ips : ", patterns=_TOTAL, read=_read),
        Probe(anchor=b"train.ips : ", patterns=_IPS, read=_read),
    ),
    others=(
        _stated(b"train.total_ips"),
        _stated(b"train.compute_ips"),
        _stated(b"train.ips"),
        Probe(
            anchor=b"train_throughput : ",
            patterns=patterns(rb"\btrain_throughput : (?P<rate>" + NUMBER + rb")"),
            read=read_stated("train_throughput"),
        ),
        Probe(
            anchor=b"val.top1 : ",
            patterns=patterns(
                rb"\bval\.top1 : (?P<value>" + NUMBER + rb") ?%", rb"\bEpoch: (?P<epoch>\d{1,9}) (?!Iteration)"
            ),
            read=_read_top1,
        ),
    ),
)
