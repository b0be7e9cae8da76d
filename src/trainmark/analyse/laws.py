"""Laws that every result must keep. A run that breaks one is marked in every output, with the reason.

A marked run may not enter `compare` or `check` until a person accepts the law's breach with a written reason
(`trainmark accept`). The laws hold for own runs, commands and imported logs alike. A law that cannot be checked, since
a number is missing, marks nothing.

The laws themselves: `run_laws.py` has those of one run, `line_laws.py` those of several runs side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainmark.analyse import line_laws
from trainmark.analyse.analysis import analysis_of
from trainmark.analyse.table import Line, build_lines
from trainmark.messages import laws as messages
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Law:
    code: str
    """Of its message, and of the warning that a run gets."""
    formula: str
    """What must hold, in symbols."""
    marks: str
    """Which runs are marked where it does not hold."""
    across: Callable[[Sequence[Line]], Iterator[tuple[str, Message]]] | None = None
    """Finds the ids of the runs that break it; None for a law of one run, checked when the run is analysed."""


LAWS = {
    law.code: law
    for law in (
        Law(
            code=messages.superlinear.code,
            formula="speed-up <= 1.02 x devices / base devices",
            marks="the runs on more devices",
            across=line_laws.find_superlinear,
        ),
        Law(
            code=messages.more_is_slower.code,
            formula="speed-up >= 0.98 on more devices",
            marks="the runs on more devices",
            across=line_laws.find_more_is_slower,
        ),
        Law(
            code=messages.faster_than_clock.code,
            formula="rate <= 1.25 x samples / time between the time stamps of the records",
            marks="the run",
        ),
        Law(
            code=messages.above_peak.code,
            formula="rate x FLOPs per sample <= devices x dense peak of the device in this precision",
            marks="the run",
        ),
        Law(
            code=messages.impossible_metric.code,
            formula="0 <= accuracy <= 1, or <= 100 in a log",
            marks="the run",
        ),
        Law(
            code=messages.odd_first_loss.code,
            formula="|first loss - ln(classes)| <= max(1, ln(classes) / 4)",
            marks="the run",
        ),
        Law(
            code=messages.identical_repeat.code,
            formula="step durations of two runs differ",
            marks="the later run",
            across=line_laws.find_identical,
        ),
        Law(
            code=messages.far_repeat.code,
            formula="|x - mean of the other repeats| <= t x spread of the others, at a level of 1%",
            marks="the repeat that is far",
            across=line_laws.find_far_repeats,
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A law that a run breaks."""

    message: Message
    because: str | None
    """Why a person accepted it; None: not accepted, the run is not admitted."""
    accepted_unix_s: float | None = None

    @property
    def law(self) -> str:
        return self.message.code

    def to_json(self) -> dict[str, Any]:
        accepted = None if self.because is None else {"because": self.because, "unix_s": self.accepted_unix_s}
        return {"law": self.law, "message": self.message.english, "accepted": accepted}


def judge(rows: Sequence[RunRow]) -> None:
    """Check runs side by side. Pass all runs of a store: a run that is shown alone keeps the mark that others gave it.

    Rows that were judged together, or as a part of more, keep their marks; with a new one among them all are judged.
    """
    if all("marks" in row.found for row in rows):
        return
    lines = build_lines(rows)
    found: dict[str, list[Message]] = {}
    for law in LAWS.values():
        for run_id, message in law.across(lines) if law.across is not None else ():
            found.setdefault(run_id, []).append(message)
    for row in rows:
        broken = (*_own(row), *found.get(row.id, ()))
        row.found["marks"] = tuple(_mark(row, message) for message in broken) if broken else ()


def marks_of(row: RunRow) -> tuple[Mark, ...]:
    """The laws that a run breaks, accepted or not; of a row that was not judged, only the laws of one run."""
    found: tuple[Mark, ...] | None = row.found.get("marks")
    return tuple(_mark(row, message) for message in _own(row)) if found is None else found


def broken_laws(row: RunRow) -> tuple[Message, ...]:
    """Why a run is not admitted; empty if it is."""
    return tuple(mark.message for mark in marks_of(row) if mark.because is None)


def is_admitted(row: RunRow) -> bool:
    """Whether the run may enter a comparison: it breaks no law, or a person accepted each."""
    return not broken_laws(row)


def _own(row: RunRow) -> list[Message]:
    return [Message.from_json(found) for found in analysis_of(row).warnings if found["code"] in LAWS]


def _mark(row: RunRow, message: Message) -> Mark:
    accepted = next((entry for entry in row.accepted if entry["law"] == message.code), None)
    if accepted is None:
        return Mark(message=message, because=None)
    return Mark(message=message, because=accepted["because"], accepted_unix_s=accepted["unix_s"])
