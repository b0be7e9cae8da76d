"""Gluon-CV and MXNet's Speedometer: `[Epoch 0][Batch 9], LR: .., Speed: 38.5 samples/sec, ..`, global."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Probe, read_step, read_wholes
from trainmark.logs.printed import NUMBER, patterns

DIALECT = Dialect(
    name="gluon",
    summary="Gluon-CV and MXNet Speedometer: samples/sec of the last iterations",
    framework="mxnet",
    unit="images",
    steps=(
        Probe(
            anchor=b"Speed: ",
            patterns=patterns(
                rb"\bSpeed: (?P<rate>" + NUMBER + rb") (?P<unit>samples)/sec",
                rb"\bEpoch ?\[?(?P<epoch>\d{1,9})\]",
                rb"\bBatch ?\[?(?:\d{1,12}-)?(?P<step>\d{1,12})\]",  # MXNet: Batch [0-20]
            ),
            read=read_step,
        ),
    ),
    others=(
        Probe(
            anchor=b"batch_size=",
            patterns=patterns(rb"\bbatch_size=(?P<global_batch_size>\d{1,9})"),
            read=read_wholes,
            where="ends",
            strength=1,
        ),
        Probe(
            anchor=b"gpus='",
            patterns=patterns(rb"\bgpus='(?P<gpus>[\d,]{1,60})'"),
            read=lambda groups: {"devices": groups["gpus"].count(b",") + 1},
            where="ends",
        ),
    ),
)
