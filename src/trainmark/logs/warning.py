"""Warnings about imported logs: a closed set of codes, each a complete sentence; docs/concepts/warnings.md explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainmark.units import plain

SENTENCES = {
    "path-disagrees": "the log says {name} {log}, its path says {path}; the log counts",
    "config-contradicted": "the printed configuration says {name} {config}, the run used {used}; the run counts",
    "scope-ambiguous": "its rates may be those of one device or of all, and the log does not tell; no rate is given",
    "devices-unknown": "its rates are those of one device and the number of devices is not told; give --devices",
    "batch-unknown": "it tells seconds of an iteration but no batch size; rates count iterations; give --batch-size",
    "one-node-of-many": "the rate is that of one of {nodes} nodes; the others have logs of their own",
    "several-ranks": "{count} lines of other ranks told the same steps and were left out",
    "damaged": "the file ends in the middle of its compressed data; what came before was read",
    "edited-times": "its protocol's time stamps are {days:.0f} days away from those of its other lines",
    "no-end": "the log's protocol has a test_begin and no test_finish; it may have been cut short",
}
"""Found while reading. `trainmark.analyse.checks` has those that follow from the numbers alone."""


@dataclass(frozen=True, kw_only=True)
class Warn:
    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def warn(code: str, **facts: Any) -> Warn:
    shown = {name: plain(value)[:80] if isinstance(value, str) else value for name, value in facts.items()}
    return Warn(code=code, message=SENTENCES[code].format(**shown))
