"""TSM and other children of PyTorch's ImageNet example: `Epoch: [0][20/1833], lr: .. Time 0.294 (0.31) Data ..`.

The first number is that of one iteration, the one in brackets the mean of the epoch so far.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_eval, read_step, read_wholes
from trainmark.logs.printed import NUMBER, number, patterns, whole
from trainmark.logs.record import LogRecord

_STEP = patterns(
    rb"\bEpoch: \[(?P<epoch>\d{1,9})\]\[ {0,8}(?P<step>\d{1,12})/ {0,8}(?P<of>\d{1,12})\]",
    rb"\bTime {1,4}(?P<seconds>" + NUMBER + rb") {1,4}\( {0,6}(?P<mean>" + NUMBER + rb")\)",
    rb"\b(?:lr|LR): {1,4}(?P<lr>" + NUMBER + rb")",
    rb"\bLoss {1,4}(?P<loss>" + NUMBER + rb") \(",
)


def _steps_per_epoch(groups: Groups) -> dict[str, int | None]:
    return {"steps_per_epoch": whole(groups["of"])}


def _read_example(groups: Groups) -> LogRecord | None:
    value = number(groups.get("value"))
    return None if value is None else LogRecord(kind="eval", metric="top1", value=value)


DIALECT = Dialect(
    name="torch-example",
    summary="TSM and scripts like PyTorch's ImageNet example: seconds of one iteration",
    framework="torch",
    unit="images",
    meaning=Meaning.STEP,
    first_step=0,
    steps=(Probe(anchor=b"Epoch: [", patterns=_STEP, read=read_step),),
    others=(
        Probe(
            anchor=b"Testing Results: ",
            patterns=patterns(rb"Testing Results: Prec@1 (?P<value>" + NUMBER + rb")"),
            read=read_eval("top1"),
        ),
        Probe(
            anchor=b" Acc@1 ", patterns=patterns(rb"^\s\* {1,8}Acc@1 (?P<value>" + NUMBER + rb")"), read=_read_example
        ),
        Probe(anchor=b"Epoch: [", patterns=_STEP[:1], read=_steps_per_epoch, where="ends", strength=3),
        Probe(
            anchor=b"video number:",
            patterns=patterns(rb"video number: ?(?P<num_train_samples>\d{1,12})"),
            read=read_wholes,
            where="ends",
        ),
        Probe(
            anchor=b"temporal shift",
            patterns=patterns(rb"Adding temporal shift"),
            read=lambda _: {"unit": "clips", "workload": "tsm", "model": "TSM"},
            where="ends",
        ),
    ),
)
