"""The report as Markdown: the answer first, then results, environment, set-up, steps and logs.

No table has more than eight columns, so that it can be read where Markdown is shown. Charts are files beside the
document; in a document of its own there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainmark.report.cells import OTHER_BASELINE_MARK
from trainmark.report.charts.svg import Chart
from trainmark.report.commands import list_commands
from trainmark.report.contents import Contents, Table
from trainmark.report.markup import escape_markdown, markdown_table
from trainmark.report.page_words import PAGE_WORDS
from trainmark.report.provenance import say_provenance, to_utc
from trainmark.report.remarks import is_marked
from trainmark.report.run_entries import RunEntry, list_entries
from trainmark.report.scaling import titles
from trainmark.report.sections import (
    detail_tables,
    energy_reasons,
    energy_table,
    method_items,
    misfits,
    name_line,
    remark_items,
    say_standing,
    standings,
    study_table,
)
from trainmark.report.seed_table import seed_tables
from trainmark.report.settings import environment_tables, setup_tables
from trainmark.report.story import tell
from trainmark.report.words import WORDS
from trainmark.units import ABSENT, plain

_NO_HTML = {ord("<"): "?", ord(">"): "?"}
_MOST_QUIET = 500
_MOST_TABLES = 60


def render_markdown(contents: Contents, *, charts: Sequence[Chart] = ()) -> str:
    words, lang = PAGE_WORDS[contents.lang], contents.lang
    parts = [f"# {words['title']}", _origin(contents), _answer(contents)]
    if contents.has_result:
        parts += [
            f"## {words['results']}",
            *_results(contents, charts),
            f"## {words['environment']}",
            *(_table(table) for table in environment_tables(contents.lines, lang)),
            f"## {words['setup']}",
            *(_table(table) for table in setup_tables(contents.lines, lang)),
            _steps(contents),
            f"## {words['method']}",
            _items(method_items(contents)),
        ]
    parts += [f"## {words['logs']}", *_logs(contents)]
    if contents.has_result:
        parts += [f"## {words['conclusion']}", _conclusion(contents)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _origin(contents: Contents) -> str:
    """2026-11-16 06:12 UTC, trainmark 0.1.0; measured ...; host; framework; commit"""
    words = PAGE_WORDS[contents.lang]
    made = (to_utc(contents.made_unix_s) or ABSENT).replace("T", " ")[:16]
    text = f"{words['made']} {made} UTC, {words['by'].format(version=contents.version)}"
    measured = say_provenance(contents.lines, contents.lang)
    return escape_markdown(f"{text}; {measured}" if measured else text)


def _answer(contents: Contents) -> str:
    sentences = [one.in_language(contents.lang) for one in tell(contents.lines, contents.studies)]
    return _items(sentences)


def _conclusion(contents: Contents) -> str:
    """The speeds and the first sentence of each kind, once more at the end, where the seeds' readers look for it."""
    told = tell(contents.lines, contents.studies)
    firsts = {one.kind: one for one in reversed(told)}
    ordered = [one for one in told if one.key is not None or firsts.get(one.kind) is one]
    gap = "" if contents.lang == "zh" else " "
    return escape_markdown(gap.join(one.in_language(contents.lang) for one in ordered))


def _results(contents: Contents, charts: Sequence[Chart]) -> Iterator[str]:
    words, lang, lines = PAGE_WORDS[contents.lang], contents.lang, contents.lines
    yield from (_table(table) for table in seed_tables(lines, lang)[:_MOST_TABLES])
    yield f"### {words['throughput_title']}"
    yield _pictures(charts, "throughput")
    yield from (_table(table) for table in detail_tables(lines, lang))
    yield from _notes(contents)
    remarks = remark_items(lines, lang)
    if remarks:
        yield f"### {words['remarks']}"
        yield _items(remarks)
    if contents.studies:
        yield f"### {words['scaling_title']}"
        for number, (study, title) in enumerate(zip(contents.studies, titles(contents.studies, lang), strict=True), 1):
            yield f"#### {escape_markdown(title)}"
            yield _pictures(charts, f"scaling-{number}", f"lost-{number}")
            yield _table(study_table(study, lang))
    inside = [chart for chart in charts if not chart.name.startswith(("throughput", "scaling", "lost"))]
    if inside:
        yield f"### {words['series_title']}"
        yield _pictures(inside, "")
    yield from _energy(contents)
    yield from _references(contents)


def _notes(contents: Contents) -> Iterator[str]:
    words, lines = WORDS[contents.lang], contents.lines
    if any(line.estimate is not None and line.estimate.is_within_one_run for line in lines):
        yield words["within_note"]
    if any(line.has_other_baseline for line in lines):
        yield f"{escape_markdown(OTHER_BASELINE_MARK)} {words['other_base_note']}"
    if any(is_marked(line) for line in lines):
        yield escape_markdown(words["marked_note"])


def _energy(contents: Contents) -> Iterator[str]:
    words, lang = PAGE_WORDS[contents.lang], contents.lang
    table, reasons = energy_table(contents.lines, lang), energy_reasons(contents.lines, lang)
    if table is None and not reasons:
        return
    yield f"### {words['energy_title']}"
    if table is not None:
        yield words["energy_text"]
        yield _table(table)
    if reasons:
        yield _items([f"{words['not_measured']}{WORDS[lang]['colon']}{reason}" for reason in reasons])


def _references(contents: Contents) -> Iterator[str]:
    if not contents.references:
        return
    words, colon = PAGE_WORDS[contents.lang], WORDS[contents.lang]["colon"]
    yield f"### {words['references_title']}"
    yield words["references_text"]
    items = [
        f"{name_line(line)}{colon}{say_standing(one, contents.lang)} ({one.reference.source})"
        for line, one in standings(contents)
    ]
    yield _items([*items, *misfits(contents)])


def _steps(contents: Contents) -> str:
    # A command may contain HTML, which not every renderer escapes in a listing.
    words = PAGE_WORDS[contents.lang]
    listing = "\n".join(f"    {plain(command).translate(_NO_HTML)}" for command in list_commands(contents.lines))
    return f"## {words['steps_to_repeat']}\n\n{words['commands_text']}\n\n{listing}"


def _logs(contents: Contents) -> Iterator[str]:
    """Our own runs with what went wrong; imported logs as one short line each."""
    words = PAGE_WORDS[contents.lang]
    entries = list_entries(contents)
    own = [entry for entry in entries if not entry.is_imported]
    problems, quiet = [entry for entry in own if not entry.is_quiet], [entry for entry in own if entry.is_quiet]
    if own:
        names = ("run", "measured_utc", "outcome", "result", "time", "problem", "log", "sha256")
        rows = [_log_cells(entry) for entry in (*problems, *quiet[:_MOST_QUIET])]
        yield markdown_table([words[name] for name in names], rows)
    if len(quiet) > _MOST_QUIET:
        yield words["not_listed"].format(num=len(quiet) - _MOST_QUIET)
    imported = [entry for entry in entries if entry.is_imported]
    if imported:
        yield f"### {words['imported_logs'].format(num=len(imported))}"
        yield "\n".join(_imported_line(entry) for entry in imported)


def _log_cells(entry: RunEntry) -> list[str]:
    problem = "; ".join(text for text in (entry.problem, *entry.warnings) if text) or ABSENT
    cells = (entry.id, entry.measured, entry.outcome, entry.result, entry.time, problem)
    return [*map(escape_markdown, cells), _link(entry.log, entry.link), entry.digest or ABSENT]


def _imported_line(entry: RunEntry) -> str:
    """- [name](link) (12.3 KiB, 0123456789ab), openmmlab: 12.3 images/s ±0.4%; warnings"""
    facts = ", ".join(part for part in (escape_markdown(entry.log), entry.digest) if part)
    outcome = "" if entry.is_ok else f", {escape_markdown(entry.outcome)}"
    text = f"- {_link(entry.name, entry.link)} ({facts}), "
    text += f"{escape_markdown(entry.read_as)}: {escape_markdown(entry.result)}"
    more = [entry.problem, *entry.warnings]
    return text + outcome + "".join(f"; {escape_markdown(words)}" for words in more if words)


def _link(text: str, target: str) -> str:
    return f"[{escape_markdown(text)}](<{target}>)" if target else escape_markdown(text)


def _pictures(charts: Sequence[Chart], *names: str) -> str:
    shown = [chart for chart in charts if any(chart.name == name or chart.name.startswith(f"{name}-") or not name
             for name in names)]  # fmt: skip
    return "\n\n".join(f"![{escape_markdown(chart.title)}](charts/{chart.name}.svg)" for chart in shown)


def _items(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(text)}" for text in texts)


def _table(table: Table) -> str:
    title = f"**{escape_markdown(table.title)}**\n\n" if table.title else ""
    header = [escape_markdown(name) for name in table.header]
    return title + markdown_table(header, [[escape_markdown(cell) for cell in row] for row in table.rows])
