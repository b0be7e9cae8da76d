"""The output of `ablate`: a row per optimisation, the one that is worth most first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainmark.units import ABSENT, format_number


@dataclass(frozen=True, kw_only=True)
class AblationLine:
    name: str
    rate: float | None
    worth: float | None
    """The ratio."""
    interval: tuple[float, float] | None
    """Of `worth`, 95%; None where there is one round."""
    first_step_s: float | None
    note: str


def print_ablation(lines: Sequence[AblationLine], unit: str, console: Console) -> None:
    """Without the column of the first step if none can be compared. Notes are long: they have a table of their own."""
    has_first = any(line.first_step_s is not None for line in lines)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("without")
    for heading in (f"{unit}/s", "fast is faster by", "95% interval", *(["first step"] if has_first else [])):
        table.add_column(heading, justify="right")
    notes = Table(box=None, pad_edge=False, header_style="bold")
    notes.add_column("without", no_wrap=True)
    notes.add_column("what was left out")
    for line in lines:
        table.add_row(*(Text(text) for text in _texts(line, has_first=has_first)))
        notes.add_row(Text(line.name), Text(line.note))
    console.print(table)
    console.print()
    console.print(notes)


def _texts(line: AblationLine, *, has_first: bool) -> tuple[str, ...]:
    rate = ABSENT if line.rate is None else format_number(line.rate, digits=4)
    first = ABSENT if line.first_step_s is None else f"{line.first_step_s:.0f} s"
    worth = ABSENT if line.worth is None else _percent(line.worth)
    interval = ABSENT if line.interval is None else " to ".join(map(_percent, line.interval))
    return line.name, rate, worth, interval, *([first] if has_first else [])


def _percent(worth: float) -> str:
    return f"{100 * (worth - 1):+.1f}%"
