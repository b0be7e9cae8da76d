"""The table in a terminal, at any width and without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainmark.analyse.table import Line
from trainmark.report.cells import clean, describe_line, shown_columns
from trainmark.report.words import UNITS, WORDS
from trainmark.units import ABSENT, format_plus_minus, format_rate

_NARROW = 100


def print_lines(lines: Sequence[Line], console: Console, *, lang: str = "en") -> None:
    """A sentence for each line first; then the table, where there is more than one line or the terminal is wide."""
    for line in lines:
        console.print(Text(say(line)))
        for run in line.problems:
            console.print(Text(f"  {run.id}: {run.outcome or 'running'}: {clean(run.reason)}"))
        for warning in _first_warnings(line):
            console.print(Text(f"  warning: {clean(warning)}"))
    if len(lines) > 1:
        console.print(_table(lines, lang, narrow=console.width < _NARROW))


def say(line: Line) -> str:
    """resnet50 reference fp32, 1 × 1 CPU, batch 16: 25.1 images/s ±0.4% (3 runs)"""
    cells = describe_line(line, "en")
    what = f"{cells['workload']} {cells['recipe']} {cells['precision']}, {cells['devices']}, batch {cells['batch']}"
    what = f"{what}, {cells['data']}"
    estimate = line.estimate
    if estimate is None:
        return f"{what}: no result"
    noun = "run" if line.num_ok == 1 else "runs"
    rate = format_rate(estimate.value, line.first.unit)  # type: ignore[arg-type]
    known = format_plus_minus(estimate.relative_half_width)
    text = f"{what}: {rate} {known if known != ABSENT else '(too few steps for an interval)'} ({line.num_ok} {noun})"
    return text if cells["accuracy"] == ABSENT else f"{text}, {cells['accuracy']}"


def _table(lines: Sequence[Line], lang: str, *, narrow: bool) -> Table:
    words = WORDS[lang]
    described = [describe_line(line, lang) for line in lines]
    columns = [name for name in shown_columns(described) if not narrow or name not in ("interval", "data", "runs")]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = name in ("batch", "throughput", "interval", "relative", "speedup", "efficiency")
        heading = UNITS[lang].get(lines[0].first.unit, words[name]) if name == "throughput" and narrow else words[name]
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for cells in described:
        table.add_row(*(Text(_value(cells, name, narrow=narrow)) for name in columns))
    return table


def _value(cells: dict[str, str], name: str, *, narrow: bool) -> str:
    value = cells[name]
    if narrow and name in ("throughput", "speedup", "efficiency"):
        return value.split(" ", 1)[0]
    return value


def _first_warnings(line: Line) -> list[str]:
    """At most three of each run's kinds: a thousand bad images are one thing to know, not a thousand lines."""
    found: dict[str, list[str]] = {}
    for run in line.runs:
        for warning in run.warnings:
            found.setdefault(warning["code"], []).append(warning["message"])
    shown = []
    for code, messages in found.items():
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        shown.append(f"{code}: {messages[0]}{more}")
    return shown[:3]
