"""minGPT: `iter_dt 25.32ms; iter 100: train loss 2.12345`, milliseconds of one step in ten."""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_step
from trainmark.logs.printed import NUMBER, patterns

DIALECT = Dialect(
    name="mingpt",
    summary="minGPT: milliseconds of one iteration",
    framework="torch",
    meaning=Meaning.STEP,
    first_step=0,
    steps=(
        Probe(
            anchor=b"iter_dt ",
            patterns=patterns(
                rb"\biter_dt (?P<ms>" + NUMBER + rb")ms; iter (?P<step>\d{1,12})",
                rb"\btrain loss (?P<loss>" + NUMBER + rb")",
            ),
            read=read_step,
        ),
    ),
)
