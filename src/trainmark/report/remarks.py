"""What must be said beside a line of results: it is too noisy, why it has no interval, which laws its runs break."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.laws import LAWS, Mark, marks_of
from trainmark.analyse.noise import DISTURBANCES, explain_noise, find_cause, limiting_doubts
from trainmark.analyse.table import Line
from trainmark.messages.message import warning_titles
from trainmark.messages.numbers import too_noisy
from trainmark.report.words import WORDS
from trainmark.store.rows import RunRow

LAW_MARK = "!"
"""After a number that breaks a law, or rests on one that does."""


def say_remarks(line: Line, lang: str) -> list[str]:
    """For a report: noise with what was seen and its cause, doubts about the interval, and broken laws."""
    noise = [explain_noise(found, line.first.unit, _recorded(line)).in_language(lang) for found in _noisy(line)]
    marks = (f"{LAW_MARK} {text}" for text in _say_marks(line, lang))
    return [*noise, *_say_doubts(line, lang), *marks]


def say_notes(line: Line, lang: str) -> list[str]:
    """For a terminal, below the sentence, which says already what was seen."""
    words = WORDS[lang]
    cause = [find_cause(found, _recorded(line)).in_language(lang) for found in _noisy(line)]
    notes = (f"{words['remark']}{words['colon']}{text}" for text in (*cause, *_say_doubts(line, lang)))
    marks = (f"{words['mark']}{words['colon']}{text}" for text in _say_marks(line, lang))
    return [*notes, *marks]


def said_codes(line: Line) -> frozenset[str]:
    """Codes of warnings that the notes of the line say already."""
    return frozenset({*LAWS, too_noisy.code, *(DISTURBANCES if _noisy(line) else ())})


def is_marked(line: Line | None) -> bool:
    """Whether a run that counts for the line breaks a law, accepted or not."""
    return line is not None and any(marks_of(run) for run in line.runs if run.outcome == "ok")


def is_row_marked(row: RunRow | None) -> bool:
    return row is not None and bool(marks_of(row))


def _noisy(line: Line) -> list[Estimate]:
    """The estimate if it is too noisy, else nothing."""
    return [line.estimate] if line.estimate is not None and line.estimate.is_too_noisy else []


def _recorded(line: Line) -> list[dict[str, Any]]:
    return [warning for run in line.runs for warning in run.warnings]


def _say_doubts(line: Line, lang: str) -> Iterator[str]:
    """Not of a noisy result, whose cause they are."""
    if line.known is not None:
        yield from (doubt.in_language(lang) for doubt in limiting_doubts(line.known))


def _say_marks(line: Line, lang: str) -> Iterator[str]:
    """One for each law; what was accepted has its reason and its day."""
    found: dict[tuple[str, str | None], list[tuple[RunRow, Mark]]] = {}
    for run in line.runs:
        for mark in marks_of(run):
            found.setdefault((mark.law, mark.because), []).append((run, mark))
    words = WORDS[lang]
    for (law, because), same in found.items():
        run, mark = same[0]
        title = f"{warning_titles()[law]} ({law})" if lang == "zh" else law
        more = words["and_more"].format(num=len(same) - 1) if len(same) > 1 else ""
        text = words["marked"].format(law=title, run=run.id, message=mark.message.in_language(lang), more=more)
        if because is None:
            yield text
        else:
            yield f"{text}{words['semicolon']}{words['accepted'].format(day=_day(mark), because=because)}"


def _day(mark: Mark) -> str:
    if mark.accepted_unix_s is None or not 0 <= mark.accepted_unix_s < 1e11:
        return "?"
    return time.strftime("%Y-%m-%d", time.gmtime(mark.accepted_unix_s))
