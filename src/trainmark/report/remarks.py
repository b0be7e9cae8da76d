"""What must be said beside a line of results: it is too noisy, why it has no interval, which laws its runs break."""

from __future__ import annotations

import time
from collections.abc import Iterator

from trainmark.analyse.laws import LAWS, Mark, marks_of
from trainmark.analyse.noise import explain_noise, limiting_doubts
from trainmark.analyse.table import Line
from trainmark.messages.message import warning_titles
from trainmark.messages.numbers import too_noisy
from trainmark.report.words import WORDS
from trainmark.store.rows import RunRow

SAID_HERE = frozenset({*LAWS, too_noisy.code})
"""Codes of warnings that a remark says already."""


def say_remarks(line: Line, lang: str) -> list[str]:
    return [*_say_noise(line, lang), *_say_doubts(line, lang), *_say_marks(line, lang)]


def is_marked(line: Line | None) -> bool:
    """Whether a run that counts for the line breaks a law, accepted or not."""
    return line is not None and any(marks_of(run) for run in line.runs if run.outcome == "ok")


def is_row_marked(row: RunRow | None) -> bool:
    return row is not None and bool(marks_of(row))


def _say_noise(line: Line, lang: str) -> Iterator[str]:
    if line.estimate is not None and line.estimate.is_too_noisy:
        recorded = [warning for run in line.runs for warning in run.warnings]
        yield explain_noise(line.estimate, line.first.unit, recorded).in_language(lang)


def _say_doubts(line: Line, lang: str) -> Iterator[str]:
    """Not of a noisy result, whose cause they are."""
    if line.estimate is not None and not line.estimate.is_too_noisy:
        yield from (doubt.in_language(lang) for doubt in limiting_doubts(line.estimate))


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
