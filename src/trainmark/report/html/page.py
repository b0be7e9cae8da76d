"""The report as one HTML file: `describe_page` decides what is on it, the templates how it looks.

A template gets the same `page`, whether it makes a file or answers a request of a local server; only the frame
(`standalone.html.j2`) puts style and script inside the file and forbids everything else by its content policy.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trainmark.analyse.table import Line
from trainmark.report.cells import per_joule, say_per_joule, say_unit, say_workload
from trainmark.report.charts.svg import Chart, inline, style
from trainmark.report.commands import list_commands
from trainmark.report.contents import Contents, Table
from trainmark.report.figures import draw_studies, draw_throughput
from trainmark.report.page_words import PAGE_WORDS
from trainmark.report.provenance import say_provenance, to_utc
from trainmark.report.run_entries import list_entries
from trainmark.report.run_figures import draw_runs, draw_sparkline
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
from trainmark.report.story import Sentence, configuration, fastest_lines, tell
from trainmark.units import ABSENT, format_number, format_plus_minus, plain

_PACKAGE = "trainmark.report.html"
_MOST_TABLES = 12
_MOST_SPARKS = 60
_MOST_QUIET = 400
_MOST_PROBLEMS = 400
_MOST_TILES = 8
_MOST_STUDIES = 12
_MOST_DETAILS = 300
_NUM_OPEN = 3


@dataclass(frozen=True, kw_only=True)
class Assets:
    """Style and script of the page, with the hashes by which its content policy allows them."""

    style: Markup
    script: Markup
    style_hash: str
    script_hash: str


def render_html(contents: Contents) -> str:
    template = _environment().get_template("standalone.html.j2")
    return template.render(page=describe_page(contents), words=PAGE_WORDS[contents.lang], assets=_assets())


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["svg"] = _to_markup
    return found


def _finalize(value: Any) -> Any:
    """Before it is escaped: nothing that drives a terminal or turns the reading direction, wherever it came from."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _to_markup(chart: Chart) -> Markup:
    """A chart escapes its own texts."""
    return Markup(inline(chart))  # noqa: S704


@cache
def _assets() -> Assets:
    folder = resources.files(_PACKAGE) / "templates"
    css = f"{style()}\n{(folder / 'page.css').read_text(encoding='utf-8')}"
    script = (folder / "page.js").read_text(encoding="utf-8")
    return Assets(
        style=Markup(css),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
        style_hash=_hash(css),
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def describe_page(contents: Contents) -> dict[str, Any]:
    """Everything that the templates show, as text, tables and charts."""
    lang, lines = contents.lang, contents.lines
    words = PAGE_WORDS[lang]
    made = (to_utc(contents.made_unix_s) or ABSENT).replace("T", " ").removesuffix("Z")
    by = f"{words['made']} {made[:16]} UTC, {words['by'].format(version=contents.version)}"
    parts = ("answer", "results", "environment", "setup", "steps", "method", "logs")
    titles = {"steps": "steps_to_repeat"}
    return {
        "lang": lang,
        "version": contents.version,
        "heading": _heading(contents),
        "origin": plain(say_provenance(lines, lang) or by),
        "footer": by,
        "parts": [{"id": part, "title": words[titles.get(part, part)]} for part in parts],
        "sentences": [_sentence(one, lang) for one in tell(lines, contents.studies)],
        "tiles": [_tile(line, lang) for line in fastest_lines(lines)[:_MOST_TILES]],
        **_describe_results(contents),
        "environment": environment_tables(lines, lang),
        "setup": setup_tables(lines, lang),
        "commands": list_commands(lines),
        "method": method_items(contents),
        **_describe_logs(contents),
    }


def _heading(contents: Contents) -> str:
    """Training speed: resnet50, tsm on NVIDIA H200"""
    words = PAGE_WORDS[contents.lang]
    colon = "：" if contents.lang == "zh" else ": "
    names = list(dict.fromkeys(say_workload(line, "en").split(" @ ")[0] for line in contents.lines))
    machines = list(dict.fromkeys(line.first.machine for line in contents.lines if line.first.machine))
    shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    where = f" · {machines[0]}" if len(machines) == 1 else ""
    return plain(f"{words['title']}{colon}{shown}{where}")


def _sentence(one: Sentence, lang: str) -> dict[str, str]:
    """In three pieces, of which the middle one is shown in bold."""
    key = plain(one.key.in_language(lang)) if one.key is not None else ""
    before, found, after = one.in_language(lang).partition(key) if key else (one.in_language(lang), "", "")
    return {"kind": one.kind, "before": before, "key": found, "after": after}


def _tile(line: Line, lang: str) -> dict[str, str]:
    assert line.known is not None
    notes = [configuration(line)]
    if line.known.relative_half_width is not None:
        notes.insert(0, format_plus_minus(line.known.relative_half_width))
    if per_joule(line) is not None:
        notes.append(plain(say_per_joule(line, lang)))
    return {
        "name": plain(say_workload(line, lang)),
        "value": format_number(line.known.value),
        "unit": plain(say_unit(line.first.unit, lang)),
        "note": " · ".join(notes),
    }


def _describe_results(contents: Contents) -> dict[str, Any]:
    lang, lines = contents.lang, contents.lines
    words = PAGE_WORDS[lang]
    drawn, num_left = draw_runs(lines, lang)
    return {
        "seed_units": _by_heading(seed_tables(lines, lang)),
        "most_groups": _MOST_TABLES,
        "bars": draw_throughput(lines, lang),
        "details": detail_tables(lines[:_MOST_DETAILS], lang),
        "sparks": [_spark(line) for line in lines[:_MOST_SPARKS]],
        "remarks": remark_items(lines, lang),
        "studies": [
            {"title": one.title, "curve": one.curve, "losses": one.losses, "table": study_table(one.study, lang)}
            for one in draw_studies(contents.studies, lang)[:_MOST_STUDIES]
        ],
        "run_figures": drawn,
        "num_open": _NUM_OPEN,
        "not_drawn": words["series_more"].format(num=num_left) if num_left else "",
        "energy": energy_table(lines, lang),
        "energy_reasons": energy_reasons(lines, lang),
        "standings": [
            {"name": name_line(line), "text": say_standing(one, lang), "source": one.reference.source}
            for line, one in standings(contents)
        ],
        "misfits": misfits(contents),
    }


def _by_heading(tables: Sequence[Table]) -> list[list[Table]]:
    """Tables with the same headings are shown as one, with a line above each."""
    found: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        found.setdefault(tuple(table.header), []).append(table)
    return list(found.values())


def _spark(line: Line) -> Markup:
    run = next((run for run in line.runs if run.outcome == "ok"), None)
    return Markup(draw_sparkline(run)) if run is not None else Markup("")  # noqa: S704 - numbers only


def _describe_logs(contents: Contents) -> dict[str, Any]:
    words = PAGE_WORDS[contents.lang]
    entries = list_entries(contents)
    problems = [entry for entry in entries if not entry.is_quiet]
    quiet = [entry for entry in entries if entry.is_quiet]
    num_hidden = max(0, len(quiet) - _MOST_QUIET) + max(0, len(problems) - _MOST_PROBLEMS)
    return {
        "problem_runs": problems[:_MOST_PROBLEMS],
        "problem_title": words["problem_runs"].format(num=len(problems)),
        "quiet_runs": quiet[:_MOST_QUIET],
        "quiet_title": words["quiet_runs"].format(num=len(quiet)),
        "not_listed": words["not_listed"].format(num=num_hidden) if num_hidden else "",
    }
