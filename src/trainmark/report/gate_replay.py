"""What `check --replay` says: the alarms of the past, those that were certainly false apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from trainmark.analyse.replay import CellReplay, Tally, upper_limit
from trainmark.report.layout import fold, print_rows
from trainmark.units import ABSENT, format_count, plain

_HEADINGS = (
    "cell",
    "machine",
    "measurements",
    "false alarms (same code)",
    "at most",
    "alarms (code changed)",
    "undecided",
)
_IS_RIGHT = (False, False, True, True, True, True, True)
_NOTE = (
    "Each measurement was judged against the one before it. With the same code on both sides an alarm is false; after "
    'a change of the code it may be right. "At most": upper 95% limit of the rate of false alarms.'
)


def say_replay(cells: Sequence[CellReplay]) -> str:
    judged = sum(cell.same_code.judged for cell in cells)
    alarms = sum(cell.same_code.alarms for cell in cells)
    changed = sum(cell.other_code.judged for cell in cells)
    if judged == 0:
        rest = f"; {format_count(changed, 'comparisons')} of different code say nothing about that" if changed else ""
        return f"false-alarm rate unknown: no cell was measured twice with the same code{rest}"
    limit = upper_limit(alarms, judged)
    return (
        f"{format_count(alarms, 'false alarms')} in {format_count(judged, 'comparisons')} of the same code: "
        f"{alarms / judged:.1%}, at most {limit:.1%} (95%)"
    )


def print_replay(cells: Sequence[CellReplay], console: Console) -> None:
    console.print(Text(fold(say_replay(cells), console, indent=0)))
    if cells:
        rows = [[plain(text) for text in _row(cell)] for cell in cells]
        print_rows(_HEADINGS, rows, console, is_right=_IS_RIGHT)
        console.print(Text(fold(_NOTE, console, indent=0)))


def _row(cell: CellReplay) -> list[str]:
    unusable = f" ({cell.num_unusable} unusable)" if cell.num_unusable else ""
    limit = cell.same_code.at_most
    return [
        cell.name,
        cell.machine,
        f"{cell.num_batches}{unusable}",
        _say(cell.same_code),
        ABSENT if limit is None else f"{limit:.0%}",
        _say(cell.other_code),
        str(cell.same_code.inconclusive + cell.other_code.inconclusive),
    ]


def _say(tally: Tally) -> str:
    return f"{tally.alarms} of {tally.judged}" if tally.judged else ABSENT


def describe_replay(cells: Sequence[CellReplay]) -> dict[str, Any]:
    return {
        "answer": say_replay(cells),
        "cells": [
            {
                "name": cell.name,
                "machine": cell.machine,
                "measurements": cell.num_batches,
                "unusable": cell.num_unusable,
                "same_code": _describe(cell.same_code),
                "code_changed": _describe(cell.other_code),
            }
            for cell in cells
        ],
    }


def _describe(tally: Tally) -> dict[str, Any]:
    return {
        "judged": tally.judged,
        "alarms": tally.alarms,
        "inconclusive": tally.inconclusive,
        "rate": tally.rate,
        "rate_at_most": tally.at_most,
    }
