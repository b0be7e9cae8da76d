"""Results in a terminal: a sentence for one line, a table that fits any width for several, without colour."""

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
from trainmark.report.layout import fold, print_texts, room_for_table, table_texts, total_width, unfolded_widths
from trainmark.report.provenance import say_provenance
from trainmark.report.remarks import LAW_MARK, is_marked, is_row_marked, said_codes, say_notes, say_remarks
from trainmark.report.words import WORDS, say_coded_warning, say_outcome
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_interval, format_number, plain


def print_lines(lines: Sequence[Line], console: Console, *, lang: str = "en") -> None:
    print_texts(say_lines(lines, console, lang=lang), console)


def say_lines(
    lines: Sequence[Line], console: Console, *, lang: str = "en", columns: Sequence[str] | None = None
) -> list[str]:
    """One line is a sentence with its notes. Several are a table, with what they share above and notes below.

    `columns`: the columns of the table, instead of those that fit the terminal.
    """
    words, warnings = WORDS[lang], warnings_of(lines)
    is_table = len(lines) > 1 or columns is not None
    notes = [_notes(line, warnings, lang, is_table=is_table) for line in lines]
    if not is_table:
        texts = [fold(say(lines[0], lang=lang), console, indent=0)]
        pairs = [("  ", note) for note in notes[0]]
    else:
        texts = _table_texts(lines, console, lang, columns, is_numbered=any(notes))
        pairs = [(f"#{number}  ", note) for number, own in enumerate(notes, start=1) for note in own]
    texts += [fold(f"{mark}{plain(note)}", console, indent=len(mark)) for mark, note in pairs]
    if is_table and any(line.known is not None and line.known.is_within_one_run for line in lines):
        texts.append(fold(words["within_note"], console, indent=2))
    if any(line.has_other_baseline for line in lines):
        texts.append(fold(f"{OTHER_BASELINE_MARK} {words['other_base_note']}", console, indent=0))
    if (provenance := say_provenance(lines, lang)) is not None:
        texts.append(fold(plain(provenance), console, indent=2))
    if any(is_marked(line) or is_row_marked(line.baseline) for line in lines):
        texts.append(fold(words["marked_note"], console, indent=2))
    return texts


def _notes(line: Line, warnings: dict[str, list[dict[str, Any]]], lang: str, *, is_table: bool) -> list[str]:
    """What a number alone would hide: runs without a result, noise and its cause, broken laws, warnings."""
    words = WORDS[lang]
    return [
        *(_say_problem(run, lang) for run in line.problems),
        *(say_remarks if is_table else say_notes)(line, lang),  # a sentence says already what was seen
        *(f"{words['warning']}{words['colon']}{text}" for text in _first_warnings(line, warnings, lang)),
    ]


def _table_texts(
    lines: Sequence[Line], console: Console, lang: str, columns: Sequence[str] | None, *, is_numbered: bool
) -> list[str]:
    words, texts = WORDS[lang], list[str]()
    described = [describe_line(line, lang) for line in lines]
    table = _fit_table(lines, described, console, lang, columns, num_width=len(f"#{len(lines)}  ") * is_numbered)
    if table.shared:
        said = ", ".join(_named(name, described[0][name], lang) for name in table.shared)
        texts.append(fold(plain(f"{words['all_lines']}{words['colon']}{said}"), console, indent=2))
    headings, rows, right = table.headings, table.rows, _are_numbers(table.columns)
    if is_numbered:  # only where notes refer to it
        numbers = [f"#{number}" for number in range(1, len(rows) + 1)]
        headings, right = ["", *headings], [False, *right]
        rows = [[number, *row] for number, row in zip(numbers, rows, strict=True)]
    texts += table_texts(headings, rows, console, is_right=right)
    if table.left_out:
        said = words["left_out"].format(columns=", ".join(heading(name, lang) for name in table.left_out))
        texts.append(fold(said, console, indent=2))
    return texts


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
    known |= {name: _named(name, known[name], lang) for name in ("devices", "batch_size_per_device") if name in known}
    name = " ".join(known[part] for part in ("workload", "framework", "recipe", "precision") if part in known)
    parts = ("devices", "machine", "batch_size_per_device", "data")
    what = ", ".join([name, *(known[part] for part in parts if part in known)])
    if line.estimate is None:
        return f"{what}{words['colon']}{words['no_result']}"
    runs = f"({heading('runs', lang)}{words['colon']}{cells['runs']})"
    text = f"{what}{words['colon']}{_say_speed(line, line.estimate, cells, lang)} {runs}"
    more = (name for name, column in table_columns().items() if column.is_said and name in known)
    return ", ".join([text, *(known[name] for name in more)])


def _named(name: str, text: str, lang: str) -> str:
    """`batch/device 16`: a bare number needs its heading; `1 × 8` is clear without."""
    return f"{heading(name, lang)} {text}" if text.isdecimal() else text


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
    shared: list[str]
    """Columns in which all lines say the same: said once, above the table."""
    left_out: list[str]
    """Columns that do not fit the terminal."""


def _fit_table(
    lines: Sequence[Line],
    described: Sequence[dict[str, str]],
    console: Console,
    lang: str,
    asked: Sequence[str] | None,
    *,
    num_width: int,
) -> _Table:
    """With all columns if they fit; else with shortened numbers, and then without the least important columns."""
    columns = list(asked or shown_columns(described))
    shared = [] if asked else _shared_columns(columns, described)
    unknown = [] if asked else [name for name in columns if all(cells[name] == ABSENT for cells in described)]
    columns = [name for name in columns if name not in shared and (name not in unknown or name == "throughput")]
    rows = [[cells[name] for name in columns] for cells in described]
    headings = [heading(name, lang) for name in columns]
    room = room_for_table(console) - num_width
    if asked or total_width(unfolded_widths([headings, *rows])) <= room:
        return _Table(columns=columns, headings=headings, rows=rows, shared=shared, left_out=[])
    units = {line.first.unit for line in lines}
    unit = plain(say_unit(units.pop(), lang)) if len(units) == 1 else None
    rows = [[_short_value(cells[name], name, unit) for name in columns] for cells in described]
    if unit is not None:
        headings[columns.index("throughput")] = unit
    left_out = []
    for name in _spare_columns():
        if name in columns and total_width(unfolded_widths([headings, *rows])) > room:
            place = columns.index(name)
            left_out.append(name)
            for row in (columns, headings, *rows):
                del row[place]
    return _Table(columns=columns, headings=headings, rows=rows, shared=shared, left_out=left_out)


def _shared_columns(columns: Sequence[str], described: Sequence[dict[str, str]]) -> list[str]:
    """What was measured, as far as it is the same in all lines. One column remains, to tell the rows by."""
    setup = [name for name in columns if table_columns()[name].is_setup]
    same = [name for name in setup if len({cells[name] for cells in described}) == 1 and described[0][name] != ABSENT]
    return same if len(same) < len(setup) else same[1:]


def _spare_columns() -> list[str]:
    """The least important first. What tells the lines apart stays."""
    ranked = sorted((column.drop, name) for name, column in table_columns().items() if column.drop is not None)
    return [name for _, name in ranked if not table_columns()[name].drop_only_same]


def _are_numbers(columns: Sequence[str]) -> list[bool]:
    return [table_columns()[name].is_number for name in columns]


def _short_value(text: str, name: str, unit: str | None) -> str:
    """`unit`: where the heading has it."""
    if name == "throughput" and unit is not None:
        return text.removesuffix(f" {unit}")
    return text.split(" ", 1)[0] if table_columns()[name].is_shortened else text


def _say_problem(run: RunRow, lang: str) -> str:
    return f"{run.id}: {WORDS[lang]['colon'].join((say_outcome(run, lang), run.why.in_language(lang)))}"


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
