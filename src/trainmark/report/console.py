"""The table in a terminal, at any width and without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from trainmark.analyse.table import Line, warnings_of
from trainmark.report.cells import OTHER_BASE_MARK, describe_line, shown_columns
from trainmark.report.layout import print_rows
from trainmark.report.words import UNITS, WORDS
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_number, plain

_NARROW = 100
_NUMERIC = ("batch", "throughput", "interval", "relative", "speedup", "efficiency")


def print_lines(lines: Sequence[Line], console: Console, *, lang: str = "en") -> None:
    """A sentence for each line first; then the table, where there is more than one line."""
    warnings = warnings_of(lines)
    described = [describe_line(line, lang) for line in lines]
    said = []
    for line, cells in zip(lines, described, strict=True):
        said.append(_say(line, cells, lang))
        said += [plain(f"  {run.id}: {run.outcome or 'running'}: {run.reason}") for run in line.problems]
        said += [plain(f"  {WORDS[lang]['warning']}: {warning}") for warning in _first_warnings(line, warnings)]
    console.print(Text("\n".join(said)))
    if len(lines) > 1:
        _print_table(described, console, lang, unit=lines[0].first.unit)
    if any(line.has_other_base for line in lines):
        console.print(Text(f"{OTHER_BASE_MARK} {WORDS[lang]['other_base_note']}"))


def print_protocol(rows: Sequence[RunRow], protocol: str, console: Console) -> None:
    """What another way of counting makes of each run."""
    from trainmark.analyse.protocols import apply_protocol

    for row in rows:
        answer = apply_protocol(protocol, row)
        text = (
            f"{format_number(answer['value'], digits=7)} {answer['unit'] or ''}"
            if answer["value"]
            else answer["reason"]
        )
        console.print(Text(plain(f"  {row.id}: {protocol}: {text}")))


def say(line: Line, *, lang: str = "en") -> str:
    """resnet50 reference fp32, 1 × 1 CPU, batch 16, synthetic: 25.1 images/s ±0.4% (3 runs)"""
    return _say(line, describe_line(line, lang), lang)


def _say(line: Line, cells: dict[str, str], lang: str) -> str:
    words = WORDS[lang]
    what = " ".join(cells[name] for name in ("workload", "recipe", "precision"))
    what = f"{what}, {cells['devices']}, {words['batch']} {cells['batch']}, {cells['data']}"
    if line.estimate is None:
        return f"{what}: {words['no_result']}"
    known = cells["relative"] if cells["relative"] != ABSENT else f"({words['too_few']})"
    text = f"{what}: {cells['throughput']} {known} ({words['runs']}: {cells['runs']})"
    return text if cells["accuracy"] == ABSENT else f"{text}, {cells['accuracy']}"


def _print_table(described: Sequence[dict[str, str]], console: Console, lang: str, *, unit: str) -> None:
    words, narrow = WORDS[lang], console.width < _NARROW
    columns = [name for name in shown_columns(described) if not narrow or name not in ("interval", "data", "runs")]
    headings = {name: words[name] for name in columns}
    if narrow:
        headings["throughput"] = UNITS[lang].get(unit, words["throughput"])
    rows = [[_value(cells, name, narrow=narrow) for name in columns] for cells in described]
    is_right = [name in _NUMERIC for name in columns]
    print_rows(list(headings.values()), rows, console, is_right=is_right)


def _value(cells: dict[str, str], name: str, *, narrow: bool) -> str:
    value = cells[name]
    if narrow and name in ("throughput", "speedup", "efficiency"):
        return value.split(" ", 1)[0]
    return value


def _first_warnings(line: Line, warnings: dict[str, list[dict[str, str]]]) -> list[str]:
    """At most three of each run's kinds: a thousand bad images are one thing to know, not a thousand lines."""
    found: dict[str, list[str]] = {}
    for run in line.runs:
        for warning in warnings[run.id]:
            found.setdefault(warning["code"], []).append(warning["message"])
    shown = []
    for code, messages in found.items():
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        shown.append(f"{code}: {messages[0]}{more}")
    return shown[:3]
