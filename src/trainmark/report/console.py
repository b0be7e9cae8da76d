"""The table in a terminal, at any width and without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from trainmark.analyse.table import Line, warnings_of
from trainmark.report.cells import OTHER_BASE_MARK, TELLING, describe_line, shown_columns
from trainmark.report.layout import fold, least_widths, print_rows, total_width, unfolded_widths
from trainmark.report.recorded import say_coded_warning, say_outcome
from trainmark.report.words import UNITS, WORDS
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_number, plain

_NAMES = ("recipe", "precision", "devices", "batch", "workload")
_NUMERIC = ("batch", "throughput", "interval", "relative", "speedup", "efficiency")


def print_lines(lines: Sequence[Line], console: Console, *, lang: str = "en") -> None:
    """A sentence for each line first; then the table, where there is more than one line.

    In a terminal that is wide enough for the whole table it says all that the sentences do: only those remain that have
    more to say, or something below them.
    """
    words, warnings = WORDS[lang], warnings_of(lines)
    described = [describe_line(line, lang) for line in lines]
    untold = set(TELLING) - set(shown_columns(described))
    table = _fit_table(lines, described, console, lang) if len(lines) > 1 else None
    is_said_below = table is not None and table.is_whole and not console.soft_wrap
    said = []
    for line, cells in zip(lines, described, strict=True):
        notes = [_say_problem(run, lang) for run in line.problems]
        notes += [f"  {words['warning']}{words['colon']}{text}" for text in _first_warnings(line, warnings, lang)]
        has_more = line.estimate is None or line.estimate.relative_half_width is None
        if notes or has_more or not is_said_below:
            said.append(_say(line, {**cells, **dict.fromkeys(untold, ABSENT)}, lang))
        said += [fold(plain(note), console, indent=2) for note in notes]
    if said:
        console.print(Text("\n".join(said)))
    if table is not None:
        is_right = [name in _NUMERIC for name in table.columns]
        print_rows(table.headings, table.rows, console, is_right=is_right)
    if any(line.has_other_baseline for line in lines):
        console.print(Text(f"{OTHER_BASE_MARK} {words['other_base_note']}"))


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
    """resnet50 reference fp32, 1 × 1 CPU, batch 16, synthetic: 25.1 images/s ±0.4% (3 runs); without what is unknown"""
    return _say(line, {**describe_line(line, lang), **dict.fromkeys(TELLING, ABSENT)}, lang)


def _say(line: Line, cells: dict[str, str], lang: str) -> str:
    words = WORDS[lang]
    known = {name: text for name, text in cells.items() if text != ABSENT}
    for name in ("devices", "batch"):
        if known.get(name, "").isdecimal():  # a bare number; `1 × 8` speaks for itself
            known[name] = f"{words[name]} {known[name]}"
    name = " ".join(known[part] for part in ("workload", "framework", "recipe", "precision") if part in known)
    what = ", ".join([name, *(known[part] for part in ("devices", "machine", "batch", "data") if part in known)])
    if line.estimate is None:
        return f"{what}{words['colon']}{words['no_result']}"
    relative = known.get("relative", f"({words['too_few']})")
    runs = f"({words['runs']}{words['colon']}{cells['runs']})"
    text = f"{what}{words['colon']}{cells['throughput']} {relative} {runs}"
    return f"{text}, {known['accuracy']}" if "accuracy" in known else text


@dataclass(frozen=True, kw_only=True)
class _Table:
    columns: list[str]
    headings: list[str]
    rows: list[list[str]]
    is_whole: bool
    """No cell is folded, shortened or left out for lack of width."""


def _fit_table(lines: Sequence[Line], described: Sequence[dict[str, str]], console: Console, lang: str) -> _Table:
    """With all its columns where they fit; else numbers without intervals, and then without what can be missed."""
    columns = list(shown_columns(described))
    units = {line.first.unit for line in lines}
    unit = units.pop() if len(units) == 1 else None
    rows = [[cells[name] for name in columns] for cells in described]
    headings = [WORDS[lang][name] for name in columns]
    widths = _least_widths(columns, [headings, *rows])
    if total_width(widths) <= console.width:
        is_whole = total_width(unfolded_widths([headings, *rows])) <= console.width
        return _Table(columns=columns, headings=headings, rows=rows, is_whole=is_whole)
    rows = [[_short_value(cells[name], name, has_unit=unit is None) for name in columns] for cells in described]
    if unit is not None:
        headings[columns.index("throughput")] = UNITS[lang].get(unit, f"{unit}/s")
    widths = _least_widths(columns, [headings, *rows])
    for name in _spare_columns(described):
        if name in columns and total_width(widths) > console.width:
            place = columns.index(name)
            del widths[place]
            for row in (columns, headings, *rows):
                del row[place]
    return _Table(columns=columns, headings=headings, rows=rows, is_whole=False)


def _least_widths(columns: Sequence[str], table: Sequence[Sequence[str]]) -> list[int]:
    return least_widths(table, is_right=[name in _NUMERIC for name in columns])


def _spare_columns(described: Sequence[dict[str, str]]) -> list[str]:
    """What is missed least comes first: the sentences above the table say all of it."""
    same = [name for name in ("data", "runs", *_NAMES) if len({cells[name] for cells in described}) == 1]
    return ["interval", *same, "runs", "data", "accuracy", "efficiency", "machine", "recipe", "speedup"]


def _short_value(text: str, name: str, *, has_unit: bool) -> str:
    if name in ("speedup", "efficiency") or (name == "throughput" and not has_unit):
        return text.split(" ", 1)[0]
    return text


def _say_problem(run: RunRow, lang: str) -> str:
    return f"  {run.id}: {WORDS[lang]['colon'].join((say_outcome(run, lang), run.why.in_language(lang)))}"


def _first_warnings(line: Line, warnings: dict[str, list[dict[str, Any]]], lang: str) -> list[str]:
    """At most three of each run's kinds: a thousand bad images are one thing to know, not a thousand lines."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in line.runs:
        for warning in warnings[run.id]:
            found.setdefault(warning["code"], []).append(warning)
    return [say_coded_warning(same[0], lang, num=len(same)) for same in list(found.values())[:3]]
