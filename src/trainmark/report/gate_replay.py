"""What `check --replay` says: the alarms of the past, those that were certainly false apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from trainmark.analyse.replay import CellReplay, Tally, upper_limit
from trainmark.report.layout import fold, print_rows
from trainmark.units import ABSENT, format_count, plain

_HEADINGS = ("cell", "measured", "false alarms", "at most", "other alarms", "undecided")
_IS_RIGHT = (False, True, True, True, True, True)
_NOTE = (
    "Each measurement was judged against the one before it. False alarms: the same code on both sides. At most: upper "
    "95% limit of their rate. Other alarms: the code had changed, so they may be right."
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
    if not cells:
        return
    several = len({cell.machine for cell in cells}) > 1
    names = [plain(f"{cell.name} on {cell.machine}" if several else cell.name) for cell in cells]
    rows = [[name, *_numbers(cell)] for name, cell in zip(names, cells, strict=True)]
    print_rows(_HEADINGS, rows, console, is_right=_IS_RIGHT)
    for name, cell in zip(names, cells, strict=True):
        if cell.num_unusable:
            what = format_count(cell.num_unusable, "measurements")
            console.print(Text(fold(f"  {name}: {what} left out: {cell.why_unusable}", console, indent=2)))
    console.print(Text(fold(_NOTE, console, indent=0)))


def _numbers(cell: CellReplay) -> list[str]:
    limit = cell.same_code.at_most
    return [
        str(cell.num_batches),
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
