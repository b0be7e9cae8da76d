"""DLPerf's Paddle logs: `2020-08-13 15:13:22,1-INFO: [Pass 0, train batch 20] loss 6.9, .., elapse 0.34 sec`."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_step
from trainmark.logs.printed import NUMBER, patterns

DIALECT = Dialect(
    name="dlperf-paddle",
    summary="DLPerf's Paddle scripts: seconds of one iteration (elapse X sec)",
    framework="paddle",
    unit="images",
    meaning=Meaning.STEP,
    steps=(
        Probe(
            anchor=b"elapse ",
            patterns=patterns(
                rb"train batch (?P<step>\d{1,12})\]",
                rb"\belapse (?P<seconds>" + NUMBER + rb") sec",
                rb"\bloss:? (?P<loss>" + NUMBER + rb")",
                rb"\b[pP]ass (?P<epoch>\d{1,9})",
            ),
            read=read_step,
        ),
    ),
)
