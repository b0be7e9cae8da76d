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
    worth: tuple[float, float, float] | None
    """The ratio and the ends of its 95% interval."""
    first_step_s: float | None
    note: str


def print_ablation(lines: Sequence[AblationLine], unit: str, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("without")
    for heading in (f"{unit}/s", "fast is faster by", "95% interval", "first step"):
        table.add_column(heading, justify="right")
    table.add_column("note")
    for line in lines:
        table.add_row(*(Text(text) for text in _texts(line)))
    console.print(table)


def _texts(line: AblationLine) -> tuple[str, ...]:
    rate = ABSENT if line.rate is None else format_number(line.rate, digits=4)
    first = ABSENT if line.first_step_s is None else f"{line.first_step_s:.0f} s"
    if line.worth is None:
        return line.name, rate, ABSENT, ABSENT, first, line.note
    value, low, high = (f"{100 * (part - 1):+.1f}%" for part in line.worth)
    return line.name, rate, value, f"{low} to {high}", first, line.note
