"""Paddle's high-level API: `step  10/469 [=>....] - loss: 2.1 - acc: 0.5 - ETA: 12s - 26ms/step`, also without the bar.

Milliseconds are a mean since the epoch began. After `Eval begin...` the same lines are an evaluation.
"""

from __future__ import annotations

from dataclasses import replace

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_step
from trainmark.logs.printed import NUMBER, number, patterns
from trainmark.logs.record import LogRecord

_STEP = patterns(
    rb"(?:^|[\s\x08])step {1,9}(?P<step>\d{1,9})(?:/(?P<of>\d{1,9}))?(?: \[[=>.]{1,80}\])? - .{0,600}?"
    rb"(?: - |: )(?:(?P<mean_us>\d{1,9})us|(?P<mean_ms>\d{1,9})ms|(?P<mean>\d{1,9})s)/step\b",
    rb" - loss: (?P<loss>" + NUMBER + rb")",
)


def _read(groups: Groups) -> LogRecord | None:
    record = read_step(groups)
    return None if record is None else replace(record, is_last=groups["step"] == groups.get("of"))


def _heading(name: str, anchor: bytes, pattern: bytes) -> Probe:
    def read(groups: Groups) -> LogRecord:
        return LogRecord(kind="section", name=name, epoch=number(groups.get("epoch")))

    return Probe(anchor=anchor, patterns=patterns(pattern), read=read)


DIALECT = Dialect(
    name="paddle-hapi",
    summary="Paddle's Model.fit: time of a step, mean since the epoch began",
    framework="paddle",
    meaning=Meaning.EPOCH,
    repeats_lines=True,
    steps=(Probe(anchor=b"s/step", patterns=_STEP, read=_read),),
    others=(
        _heading("train", b"Epoch ", rb"^\s{0,8}Epoch (?P<epoch>\d{1,9})/\d{1,9}\s{0,8}$"),
        _heading("eval", b"Eval begin", rb"^\s{0,8}Eval begin"),
        _heading("eval", b"Predict begin", rb"^\s{0,8}Predict begin"),
    ),
)
