"""modded-nanogpt: `step:118/1845 train_time:4085ms step_avg:34.62ms`, totals since the start without evaluations.

Some versions set the clock back after the first ten steps, and some print a loss between.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Groups, Meaning, Probe, read_eval, read_step
from trainmark.logs.printed import NUMBER, patterns
from trainmark.logs.record import LogRecord


def _read(groups: Groups) -> LogRecord | None:
    """The mean has more digits than the total, but covers other steps than the number says in some versions."""
    return None if "val" in groups else read_step(groups)


DIALECT = Dialect(
    name="modded-nanogpt",
    summary="modded-nanogpt: milliseconds since the start and mean of an iteration",
    framework="torch",
    unit="tokens",
    meaning=Meaning.RUN,
    steps=(
        Probe(
            anchor=b" train_time:",
            patterns=patterns(
                rb"\bstep:(?P<step>\d{1,12})/\d{1,12} (?:(?P<val>val_loss):\S{1,20} |train_loss:(?P<loss>"
                + NUMBER
                + rb") )?train_time:(?P<total_ms>"
                + NUMBER
                + rb")ms",
                rb" step_avg:(?P<ms>" + NUMBER + rb")ms",
            ),
            read=_read,
        ),
    ),
    others=(
        Probe(
            anchor=b" val_loss:",
            patterns=patterns(rb"\bstep:(?P<step>\d{1,12})/\d{1,12} val_loss:(?P<value>" + NUMBER + rb")"),
            read=read_eval("val_loss"),
        ),
    ),
)
