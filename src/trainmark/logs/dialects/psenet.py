"""PSENet: `(1/62) LR: 0.001 | Batch: 0.123s | Total: 0min | .. | Loss: 0.6`; a fork adds `ips:`.

`Batch` is the mean of the epoch so far. Whether the fork's ips is that of one device or of all is not in its lines.
"""

from __future__ import annotations

from trainmark.logs.dialect import Dialect, Meaning, Probe, read_step
from trainmark.logs.printed import NUMBER, patterns

_STEP = patterns(
    rb"\((?P<step>\d{1,9})/\d{1,9}\) LR: ",
    rb"\bBatch: (?P<seconds>" + NUMBER + rb") ?s\b",
    rb"\bips: {0,4}(?P<rate>" + NUMBER + rb")",
    rb"\b(?:lr|LR): {1,4}(?P<lr>" + NUMBER + rb")",
    rb"\bLoss: (?P<loss>" + NUMBER + rb")",
)

DIALECT = Dialect(
    name="psenet",
    summary="PSENet: mean seconds of an iteration since the epoch began, and a fork's ips",
    framework="torch",
    unit="images",
    scope=None,
    meaning=Meaning.EPOCH,
    steps=(Probe(anchor=b") LR: ", patterns=_STEP, read=read_step),),
)
