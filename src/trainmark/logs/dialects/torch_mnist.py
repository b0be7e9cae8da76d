"""PyTorch's MNIST and VAE examples and their many children: `Train Epoch: 1 [320/60000 (1%)]	Loss: 1.776`.

They print no time. The samples of the epoch so far are known, so time stamps in the log, or the arrival of the lines
while a command runs, give the speed.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_eval
from trainmark.logs.printed import NUMBER, number, patterns, whole
from trainmark.logs.record import LogRecord


def _read(groups: Groups) -> LogRecord | None:
    step, epoch, loss = whole(groups["step"]), number(groups["epoch"]), number(groups.get("loss"))
    return None if step is None else LogRecord(kind="step", step=step, epoch=epoch, loss=loss)


def _read_share(groups: Groups) -> LogRecord | None:
    right, of = number(groups["right"]), number(groups["of"])
    return LogRecord(kind="eval", metric="accuracy", value=right / of) if right is not None and of else None


DIALECT = Dialect(
    name="torch-mnist",
    summary="PyTorch's MNIST and VAE examples: samples of the epoch so far, no time",
    framework="torch",
    unit="samples",
    meaning=Meaning.NONE,
    counts_samples=True,
    steps=(
        Probe(
            anchor=b"Train Epoch: ",
            patterns=patterns(
                rb"\bTrain Epoch: {1,4}(?P<epoch>\d{1,9}) \[ {0,9}(?P<step>\d{1,12})/\d{1,12} \( {0,3}[\d.]{1,6}%\)\]",
                rb"\bLoss: {1,4}(?P<loss>" + NUMBER + rb")",
            ),
            read=_read,
        ),
    ),
    others=(
        Probe(
            anchor=b"Test set: ",
            patterns=patterns(rb"Test set: .{0,80}?Accuracy: (?P<right>\d{1,12})/(?P<of>\d{1,12}) "),
            read=_read_share,
        ),
        Probe(
            anchor=b"Test set loss: ",
            patterns=patterns(rb"Test set loss: (?P<value>" + NUMBER + rb")"),
            read=read_eval("val_loss"),
        ),
    ),
)
