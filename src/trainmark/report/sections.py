"""Parts of a report as sentences and tables, for Markdown and HTML: remarks, energy, published numbers, method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainmark.analyse.analysis import powers_of
from trainmark.analyse.energy import main_kind
from trainmark.analyse.naming import cell_name
from trainmark.analyse.references import Standing, find_standings, why_nothing_fits
from trainmark.analyse.scaling import Study
from trainmark.analyse.table import Line
from trainmark.messages.references import reference_standing
from trainmark.report.cells import format_ratio, per_joule, say_per_joule
from trainmark.report.columns import describe_line, heading, shown_columns
from trainmark.report.commands import is_imported
from trainmark.report.contents import Contents, Table
from trainmark.report.figures import label
from trainmark.report.page_words import PAGE_WORDS
from trainmark.report.remarks import say_remarks
from trainmark.report.scaling import columns, describe_case, explain, name_count, say_heading
from trainmark.report.words import WORDS
from trainmark.units import ABSENT, format_interval, format_number, plain

_MOST = 40


_IN_NAME = frozenset({"workload", "framework", "machine", "recipe", "precision", "devices", "batch_size_per_device",
    "data"})  # fmt: skip
_ELSEWHERE = frozenset({"relative", "speedup", "efficiency", "energy", "evals"})
"""Columns of the tables that are named by the configuration, or stand in tables of their own."""
_MOST_COLUMNS = 8


def detail_tables(lines: Sequence[Line], lang: str) -> list[Table]:
    """Every configuration with what else the column table has: runs, speed, interval, steps, memory."""
    described = [describe_line(line, lang) for line in lines]
    names = [name for name in shown_columns(described, in_report=True) if name not in _IN_NAME | _ELSEWHERE]
    size = _MOST_COLUMNS - 1
    parts = [names[begin : begin + size] for begin in range(0, len(names), size)]
    return [_detail_table(lines, described, part, lang) for part in parts]


def _detail_table(
    lines: Sequence[Line], described: Sequence[Mapping[str, str]], names: Sequence[str], lang: str
) -> Table:
    rows = [[name_line(line), *(cells[name] for name in names)] for line, cells in zip(lines, described, strict=True)]
    header = [PAGE_WORDS[lang]["configuration"], *(heading(name, lang) for name in names)]
    return Table(header=header, rows=rows, numbers=frozenset(range(1, len(header))))


def name_line(line: Line) -> str:
    name = line.first.workload or (line.first.model or line.first.source).rsplit("/", 1)[-1]
    size = f" ({line.first.size})" if line.first.size not in (None, "full") else ""
    return plain(f"{name}{size}, {label(line)}")


def remark_items(lines: Sequence[Line], lang: str) -> list[str]:
    """Per line, what limits its number: noise, doubts and broken laws."""
    colon = WORDS[lang]["colon"]
    return [plain(f"{cell_name(line.first)}{colon}{remark}") for line in lines for remark in say_remarks(line, lang)]


def study_table(study: Study, lang: str) -> Table:
    """At most eight columns: nodes and devices are one."""
    words = WORDS[lang]
    names = [name for name in columns(study) if name not in ("nodes", "relative")]
    rows = []
    for case in study.cases:
        cells = describe_case(case, lang) | {"devices": name_count(case)}
        rows.append([*(cells[name] for name in names), explain(case, lang) or ABSENT])
    header = [*(say_heading(name, lang) for name in names), words["why"]]
    numbers = frozenset(place for place, name in enumerate(names) if name not in ("devices", "software"))
    return Table(header=header, rows=rows, numbers=numbers)


# -- energy ------------------------------------------------------------------------------------------------------------


def energy_table(lines: Sequence[Line], lang: str) -> Table | None:
    """None where no run measured it."""
    words = PAGE_WORDS[lang]
    rows = []
    for line in lines:
        if per_joule(line) is None:
            continue
        kind = main_kind(line.first)
        found = [power for run in line.runs if (power := powers_of(run).get(kind)) and power.watts]
        watts = [power.watts for power in found if power.watts is not None]
        sampled = [power.sampled_w for power in found if power.sampled_w is not None]
        rows.append([
            name_line(line), plain(say_per_joule(line, lang)),
            ", ".join(format_number(one.value) for one in watts),
            format_interval(watts[0].ci95), ", ".join(format_number(one) for one in sampled) or ABSENT,
            words[f"energy_scope_{kind}"],
        ])  # fmt: skip
    if not rows:
        return None
    header = [words[name] for name in ("configuration", "per_joule", "watts", "interval", "sampled_watts", "scope")]
    return Table(header=header, rows=rows, numbers=frozenset({1, 2, 3, 4}))


def energy_reasons(lines: Sequence[Line], lang: str) -> list[str]:
    """Why it was not measured, each reason once."""
    reasons: dict[str, None] = {}
    for line in lines:
        for run in line.runs:
            power = powers_of(run).get(main_kind(run))
            if power is not None and power.missing is not None:
                reasons[plain(power.missing.in_language(lang))] = None
    return list(reasons)


# -- published numbers -------------------------------------------------------------------------------------------------


def standings(contents: Contents) -> list[tuple[Line, Standing]]:
    found = [(line, one) for line in contents.lines for one in find_standings(line, contents.references)]
    return found[:_MOST]


def say_standing(standing: Standing, lang: str) -> str:
    """you are at 62% of NGC PyTorch on A100, which used NHWC and batch 256"""
    one = standing.reference
    said = reference_standing(
        share=format_ratio(standing.share, "%", sign_after=""),
        name=one.name,
        gpu=one.gpu if standing.is_same_gpu else None,
        publisher=one.publisher,
        differences=list(standing.differences),
    )
    return plain(said.in_language(lang))


def misfits(contents: Contents) -> list[str]:
    """Why no published number fits, each reason once with the number of results."""
    reasons: dict[str, int] = {}
    for line in contents.lines:
        why = why_nothing_fits(line.first, contents.references) if line.known is not None else None
        if why is not None:
            text = plain(why.in_language(contents.lang))
            reasons[text] = reasons.get(text, 0) + 1
    return [f"{text} ({num})" if num > 1 else text for text, num in reasons.items()]


# -- method ------------------------------------------------------------------------------------------------------------


def method_items(contents: Contents) -> list[str]:
    """How the numbers came about, with the counts of this report."""
    words, lines = PAGE_WORDS[contents.lang], contents.lines
    known = [line.estimate for line in lines if line.estimate is not None]
    steps, warmup = sum(one.num_steps for one in known), sum(one.num_warmup_steps for one in known)
    most = max((line.num_ok for line in lines), default=0)
    repeats = words["repeats_one"] if most < 2 else words["repeats_many"].format(num=most)
    items = [
        words["method_rate"],
        words["method_interval"],
        words["method_warmup"].format(warmup=f"{warmup:,}", steps=f"{steps + warmup:,}"),
        words["method_repeat"].format(runs=len(contents.runs), repeats=repeats),
        words["method_pauses"],
        words["method_doubts"],
        words["method_laws"],
        words["method_energy"],
    ]
    return [*items, *([words["method_logs"]] if any(is_imported(run) for run in contents.runs) else [])]
