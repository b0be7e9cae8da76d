"""A dialect: lines such as `sample-log| it 12 speed 345.6 points/s`."""

from __future__ import annotations

from trainmark.logs.dialect import NUMBER, Dialect, Meaning, Probe, patterns, read_step

DIALECT = Dialect(
    name="sample-log",
    summary="the logs of the sample package: global rate of one iteration",
    framework=None,
    meaning=Meaning.STEP,
    steps=(
        Probe(
            anchor=b"sample-log|",
            patterns=patterns(rb"it (?P<step>\d{1,12}) speed (?P<rate>" + NUMBER + rb") points/s"),
            read=read_step,
        ),
    ),
)
