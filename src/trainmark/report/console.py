"""Results in a terminal: a sentence per line, then a table that fits any width, without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from trainmark.analyse.estimate import Estimate
from trainmark.analyse.noise import limiting_doubts
from trainmark.analyse.table import Line
from trainmark.analyse.warnings import warnings_of
from trainmark.report.cells import OTHER_BASELINE_MARK, say_unit
from trainmark.report.columns import describe_line, differing_columns, heading, shown_columns, table_columns
from trainmark.report.layout import fold, least_widths, print_rows, total_width, unfolded_widths
from trainmark.report.provenance import say_provenance
from trainmark.report.remarks import LAW_MARK, is_marked, is_row_marked, said_codes, say_notes
from trainmark.report.words import WORDS, say_coded_warning, say_outcome
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_interval, format_number, plain


def print_lines(lines: Sequence[Line], console: Console, *, lang: str = "en") -> None:
    """First a sentence per line, then a table if there is more than one line.

    If the terminal is wide enough for the whole table, only sentences remain that say more than the table does, or that
    have a note below them.
    """
    words, warnings = WORDS[lang], warnings_of(lines)
    described = [describe_line(line, lang) for line in lines]
    unsaid = set(differing_columns()) - set(shown_columns(described))
    table = _fit_table(lines, described, console, lang) if len(lines) > 1 else None
    is_said_below = table is not None and table.is_whole and not console.soft_wrap
    said = []
    for line, cells in zip(lines, described, strict=True):
        notes = [_say_problem(run, lang) for run in line.problems]
        notes += [f"  {text}" for text in say_notes(line, lang)]
        notes += [f"  {words['warning']}{words['colon']}{text}" for text in _first_warnings(line, warnings, lang)]
        has_more = line.estimate is None or line.estimate.relative_half_width is None
        if notes or has_more or not is_said_below:
            said.append(_say(line, {**cells, **dict.fromkeys(unsaid, ABSENT)}, lang))
        said += [fold(plain(note), console, indent=2) for note in notes]
    if said:
        console.print(Text("\n".join(said)))
    if table is not None:
        print_rows(table.headings, table.rows, console, is_right=_are_numbers(table.columns))
    if any(line.has_other_baseline for line in lines):
        console.print(Text(f"{OTHER_BASELINE_MARK} {words['other_base_note']}"))
    if (provenance := say_provenance(lines, lang)) is not None:
        console.print(Text(fold(plain(provenance), console, indent=2)))
    if any(is_marked(line) or is_row_marked(line.baseline) for line in lines):
        console.print(Text(fold(words["marked_note"], console, indent=2)))


def print_protocol(rows: Sequence[RunRow], protocol: str, console: Console) -> None:
    """The result of each run by another method of aggregation."""
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
    return _say(line, {**describe_line(line, lang), **dict.fromkeys(differing_columns(), ABSENT)}, lang)


def _say(line: Line, cells: dict[str, str], lang: str) -> str:
    words = WORDS[lang]
    known = {name: text for name, text in cells.items() if text != ABSENT}
    for name in ("devices", "batch_size_per_device"):
        if known.get(name, "").isdecimal():  # a bare number; `1 × 8` is clear without a heading
            known[name] = f"{heading(name, lang)} {known[name]}"
    name = " ".join(known[part] for part in ("workload", "framework", "recipe", "precision") if part in known)
    parts = ("devices", "machine", "batch_size_per_device", "data")
    what = ", ".join([name, *(known[part] for part in parts if part in known)])
    if line.estimate is None:
        return f"{what}{words['colon']}{words['no_result']}"
    runs = f"({heading('runs', lang)}{words['colon']}{cells['runs']})"
    text = f"{what}{words['colon']}{_say_speed(line, line.estimate, cells, lang)} {runs}"
    more = (name for name, column in table_columns().items() if column.is_said and name in known)
    return ", ".join([text, *(known[name] for name in more)])


def _say_speed(line: Line, estimate: Estimate, cells: dict[str, str], lang: str) -> str:
    """25.1 images/s ±0.4% within one run; or why there is no interval, or no number"""
    words = WORDS[lang]
    if estimate.is_too_noisy:
        spread = f"{format_interval(estimate.spread)} {say_unit(line.first.unit, lang)}"
        return words["noisy_sentence"].format(spread=spread) + (LAW_MARK if is_marked(line) else "")
    if estimate.ci95 is not None:
        relative = cells["relative"]
        said = words["within_run"].format(relative=relative) if estimate.is_within_one_run else relative
    else:
        doubts = limiting_doubts(estimate)
        said = words["refused"].format(why=doubts[0].in_language(lang)) if doubts else f"({words['too_few']})"
    return f"{cells['throughput']} {said}"


@dataclass(frozen=True, kw_only=True)
class _Table:
    columns: list[str]
    headings: list[str]
    rows: list[list[str]]
    is_whole: bool
    """No cell is folded, shortened or dropped."""


def _fit_table(lines: Sequence[Line], described: Sequence[dict[str, str]], console: Console, lang: str) -> _Table:
    """With all columns if they fit; else with shortened numbers, and then without the least important columns."""
    columns = shown_columns(described)
    units = {line.first.unit for line in lines}
    unit = units.pop() if len(units) == 1 else None
    rows = [[cells[name] for name in columns] for cells in described]
    headings = [heading(name, lang) for name in columns]
    widths = _least_widths(columns, [headings, *rows])
    if total_width(widths) <= console.width:
        is_whole = total_width(unfolded_widths([headings, *rows])) <= console.width
        return _Table(columns=columns, headings=headings, rows=rows, is_whole=is_whole)
    said_unit = None if unit is None else plain(say_unit(unit, lang))
    rows = [[_short_value(cells[name], name, said_unit) for name in columns] for cells in described]
    if unit is not None:
        headings[columns.index("throughput")] = say_unit(unit, lang)
    widths = _least_widths(columns, [headings, *rows])
    for name in _spare_columns(described):
        if name in columns and total_width(widths) > console.width:
            place = columns.index(name)
            del widths[place]
            for row in (columns, headings, *rows):
                del row[place]
    return _Table(columns=columns, headings=headings, rows=rows, is_whole=False)


def _least_widths(columns: Sequence[str], table: Sequence[Sequence[str]]) -> list[int]:
    return least_widths(table, is_right=_are_numbers(columns))


def _are_numbers(columns: Sequence[str]) -> list[bool]:
    return [table_columns()[name].is_number for name in columns]


def _spare_columns(described: Sequence[dict[str, str]]) -> list[str]:
    """The least important first: the sentences above the table have all of it."""
    ranked = sorted((column.drop, name) for name, column in table_columns().items() if column.drop is not None)
    same = [name for _, name in ranked if len({cells[name] for cells in described}) == 1]
    return [ranked[0][1], *same, *(name for _, name in ranked if not table_columns()[name].drop_only_same)]


def _short_value(text: str, name: str, unit: str | None) -> str:
    """`unit`: where the heading has it."""
    if name == "throughput" and unit is not None:
        return text.removesuffix(f" {unit}")
    return text.split(" ", 1)[0] if table_columns()[name].is_shortened else text


def _say_problem(run: RunRow, lang: str) -> str:
    return f"  {run.id}: {WORDS[lang]['colon'].join((say_outcome(run, lang), run.why.in_language(lang)))}"


def _first_warnings(line: Line, warnings: dict[str, list[dict[str, Any]]], lang: str) -> list[str]:
    """The first warning of each code, at most three: a thousand bad images are one message, not a thousand lines."""
    found: dict[str, list[dict[str, Any]]] = {}
    said = said_codes(line)
    for run in line.runs:
        for warning in warnings[run.id]:
            if warning["code"] in said:
                continue
            found.setdefault(warning["code"], []).append(warning)
    return [say_coded_warning(same[0], lang, num=len(same)) for same in list(found.values())[:3]]
