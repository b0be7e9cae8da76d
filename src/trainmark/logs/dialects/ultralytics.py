"""Ultralytics YOLO: `  1/100  2.61G  1.153  1.398  1.192  81  640: 100% ━━━━━━━━━━━━ 8/8 5.2it/s 1.5s`.

Older versions have tqdm's bar, `100%|██████████| 8/8 [00:01<00:00,  5.47it/s]`. The rate is a moving average; the
seconds since the epoch began are beside it.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_eval, read_step, read_wholes
from trainmark.logs.noise import decode
from trainmark.logs.printed import CLOCK, NUMBER, patterns

_ROW = (
    rb"(?:^|\s)(?P<epoch>\d{1,6})/\d{1,6}\s{2,12}[\d.]{1,10}[GM]?\s{2,14}(?P<loss>[\d.]{1,12}|nan)\s[\s\d.a-z]{0,200}:"
    rb" {1,4}\d{1,3}%"
)
_NEW = patterns(
    _ROW + rb" (?:[\xe2\x94\x81\x80\xb8\x95]){0,200} (?P<step>\d{1,9})/\d{1,9} (?P<its>" + NUMBER + rb")it/s "
    rb"(?:(?P<total>[\d.]{1,12})s|(?P<clock>" + CLOCK + rb"))(?:<|\s|$)"
)
_SLOW = patterns(
    _ROW + rb" (?:[\xe2\x94\x81\x80\xb8\x95]){0,200} (?P<step>\d{1,9})/\d{1,9} (?P<seconds>" + NUMBER + rb")s/it "
    rb"(?:(?P<total>[\d.]{1,12})s|(?P<clock>" + CLOCK + rb"))(?:<|\s|$)"
)
_OLD = patterns(
    _ROW + rb"\|[^|]{0,200}\| (?P<step>\d{1,9})/\d{1,9} \[(?P<clock>" + CLOCK + rb")<[\d:?]{1,12}, {1,4}"
    rb"(?:(?P<its>" + NUMBER + rb")it/s|(?P<seconds>" + NUMBER + rb")s/it)"
)

DIALECT = Dialect(
    name="ultralytics",
    summary="Ultralytics YOLO bars: smoothed iterations per second, seconds since the epoch began",
    framework="torch",
    unit="images",
    meaning=Meaning.SMOOTHED,
    repeats_lines=True,
    steps=(
        Probe(anchor=b"it/s", patterns=_NEW, read=read_step),
        Probe(anchor=b"s/it", patterns=_SLOW, read=read_step),
        Probe(anchor=b"it/s", patterns=_OLD, read=read_step),
        Probe(anchor=b"s/it", patterns=_OLD, read=read_step),
    ),
    others=(
        Probe(
            anchor=b"  all  ",
            patterns=patterns(
                rb"^\s{4,40}all\s{2,12}\d{1,9}\s{2,12}\d{1,9}\s{2,12}[\d.]{1,8}\s{2,12}[\d.]{1,8}\s{2,12}[\d.]{1,8}"
                rb"\s{2,12}(?P<value>[\d.]{1,8})"
            ),
            read=read_eval("mAP50-95"),
        ),
        Probe(
            anchor=b"batch=",
            patterns=patterns(rb"(?:engine/trainer|trainer:).{0,2000}?\bbatch=(?P<global_batch_size>\d{1,9})\b"),
            read=read_wholes,
            where="ends",
        ),
        Probe(
            anchor=b"model=",
            patterns=patterns(rb"(?:engine/trainer|trainer:).{0,3000}?\bmodel=(?P<model>[\w./+-]{1,80})"),
            read=lambda groups: {"model": decode(groups["model"])},
            where="ends",
        ),
    ),
)
