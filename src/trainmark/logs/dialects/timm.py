"""timm: `Train: 0 [  50/1251 (  4%)]  Loss: 6.95 (6.96)  Time: 0.241s, 1062.91/s  (0.312s, 820.17/s)  ..`, global."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_eval, read_step, read_wholes
from trainmark.logs.printed import NUMBER, patterns

DIALECT = Dialect(
    name="timm",
    summary="timm training scripts: global images/s of one iteration",
    framework="torch",
    unit="images",
    meaning=Meaning.STEP,
    first_step=0,
    steps=(
        Probe(
            anchor=b"Train: ",
            patterns=patterns(
                rb"\bTrain: (?P<epoch>\d{1,9}) \[ {0,8}(?P<step>\d{1,12})/\d{1,12} ",
                rb"\bTime: {1,4}(?P<seconds>"
                + NUMBER
                + rb")s, {1,8}(?P<rate>"
                + NUMBER
                + rb")/s(?: {1,8}\((?P<mean>"
                + NUMBER
                + rb")s)?",
                rb"\bLoss: {1,4}(?P<loss>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b"Process 0, total ",
            patterns=patterns(rb"Process 0, total (?P<devices>\d{1,6})"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"Training with a single process on ",
            patterns=patterns(rb"single process on (?P<devices>1) device"),
            read=read_wholes,
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"mixed precision",
            patterns=patterns(rb"AMP.{0,40}mixed precision"),
            read=lambda _: {"precision": "amp"},
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"Training in float32",
            patterns=patterns(rb"Training in float32"),
            read=lambda _: {"precision": "fp32"},
            where="ends",
            strength=3,
        ),
        Probe(
            anchor=b"Best metric: ",
            patterns=patterns(rb"Best metric: (?P<value>" + NUMBER + rb")", rb"\(epoch (?P<epoch>\d{1,9})\)"),
            read=read_eval("top1"),
        ),
    ),
)
