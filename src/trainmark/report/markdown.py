"""The report as Markdown: environment, set-up, steps, results, scaling and logs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.analyse.identity import framework_version
from trainmark.analyse.laws import judge
from trainmark.analyse.naming import cell_name
from trainmark.analyse.scaling import Study, build_studies
from trainmark.analyse.table import Line
from trainmark.analyse.warnings import warnings_of
from trainmark.report.cells import OTHER_BASELINE_MARK
from trainmark.report.columns import describe_line, heading, shown_columns, table_columns
from trainmark.report.markup import escape_markdown, markdown_table
from trainmark.report.provenance import say_origin
from trainmark.report.remarks import is_marked, say_remarks
from trainmark.report.scaling import columns, describe_case, explain, say_heading, titles
from trainmark.report.words import WORDS, say_first_warning, say_outcome
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_bytes, format_seconds, plain

_NO_HTML = {ord("<"): "?", ord(">"): "?"}


def render_markdown(lines: Sequence[Line], *, lang: str, studies: Sequence[Study] | None = None) -> str:
    """`studies` if the caller knows more than the lines: what was requested and is missing."""
    words = WORDS[lang]
    judge([run for line in lines for run in line.runs])
    if not any(line.estimate for line in lines):
        return (
            "\n\n".join([f"# {words['title']}", words["none"], *([_logs(lines, words, lang)] if lines else [])]) + "\n"
        )
    parts = [
        f"# {words['title']}",
        _environment(lines, words, lang),
        _setup(lines, words, lang),
        _steps(lines, words),
        _results(lines, words, lang),
        *_scaling(build_studies(lines) if studies is None else studies, words, lang),
        _logs(lines, words, lang),
    ]
    return "\n\n".join(parts) + "\n"


def _environment(lines: Sequence[Line], words: dict[str, str], lang: str) -> str:
    rows = []
    seen: set[tuple[str, ...]] = set()
    for line in lines:
        environment = line.first.environment
        software = _software({**environment, "framework": framework_version(line.first)})
        system = str(environment.get("system") or ABSENT)
        row = (_machine(line.first, words), system, software)
        if row not in seen:
            seen.add(row)
            rows.append([escape_markdown(cell) for cell in row])
    header = [heading("machine", lang), words["system"], words["software"]]
    return f"## {words['environment']}\n\n" + markdown_table(header, rows)


def _machine(row: RunRow, words: dict[str, str]) -> str:
    cores = row.environment.get("num_cores")
    memory = row.environment.get("memory_bytes")
    cpu = row.environment.get("cpu") if row.device != "cpu" else None
    host = [cpu, words["cores"].format(num=cores) if cores else None, format_bytes(memory) if memory else None]
    known = ", ".join(str(part) for part in host if part)
    return f"{row.machine or ABSENT}; {known}" if known else row.machine or ABSENT


def _software(environment: dict[str, Any]) -> str:
    names = {"trainmark": "trainmark ", "framework": "", "cuda": "cuda ", "cudnn": "cudnn ", "nccl": "nccl ",
             "python": "Python "}  # fmt: skip
    return ", ".join(f"{name}{environment[key]}" for key, name in names.items() if environment.get(key)) or ABSENT


def _setup(lines: Sequence[Line], words: dict[str, str], lang: str) -> str:
    """A row has only the settings in which it differs from most; the usual ones are below the table, once."""
    described = [describe_line(line, "en") for line in lines]
    names = [name for name in shown_columns(described) if table_columns()[name].is_setup]
    settings = [_settings(line) for line in lines]
    usual = _usual(settings)
    others = [{key: own for key in usual if (own := found.get(key, ABSENT)) != usual[key]} for found in settings]
    header = [heading(name, lang) for name in names] + ([words["flags"]] if any(others) else [])
    rows = []
    for cells, found, other in zip(described, settings, others, strict=True):
        differing = (_say_settings(other) or ABSENT) if found else words["not_known"]
        texts = [cells[name] for name in names] + ([differing] if any(others) else [])
        rows.append([escape_markdown(text) for text in texts])
    table = f"## {words['setup']}\n\n" + markdown_table(header, rows)
    return f"{table}\n\n{words['usual_flags'].format(flags=escape_markdown(_say_settings(usual)))}" if usual else table


def _settings(line: Line) -> dict[str, str]:
    flags = line.first.environment.get("flags")
    known = flags if isinstance(flags, dict) else {}
    return {str(key): ABSENT if value is None else str(value) for key, value in known.items()}


def _usual(settings: Sequence[dict[str, str]]) -> dict[str, str]:
    """The most frequent value of each; the first one if several are equally frequent."""
    found: dict[str, Counter[str]] = {}
    for key, value in (item for known in settings for item in known.items()):
        found.setdefault(key, Counter())[value] += 1
    return {key: values.most_common(1)[0][0] for key, values in found.items()}


def _say_settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _steps(lines: Sequence[Line], words: dict[str, str]) -> str:
    runs = (run for line in lines for run in line.runs if run.asked is not None or run is line.first)
    commands = dict.fromkeys(run.asked or _command(run) for run in runs)
    # A command may contain HTML, which not every renderer escapes in a listing.
    listing = "\n".join(f"    {plain(command).translate(_NO_HTML)}" for command in commands)
    return f"## {words['steps']}\n\n{words['commands']}\n\n{listing}"


def _command(row: RunRow) -> str:
    """For a run that did not record its command line: built from its facts. Every word is quoted for a shell."""
    if row.source == "command":
        nodes = row.nodes or 1
        known = {"--nodes": nodes if nodes > 1 else None, "--devices": row.devices // nodes if row.devices else None,
            "--batch-size": row.batch_size_per_device, "--precision": row.precision, "--seed": row.seed}  # fmt: skip
        flags = [str(word) for flag, value in known.items() if value is not None for word in (flag, value)]
        return f"trainmark run {shlex.join(flags)} -- {row.model}"
    if row.dialect is not None:
        return shlex.join(("trainmark", "import", plain(row.source).translate(_NO_HTML)))
    given: dict[str, object] = {"--framework": row.framework, "--recipe": row.recipe, "--precision": row.precision,
        "--size": row.size, "--device": row.device, "--nodes": row.nodes,
        "--devices": (row.devices or 1) // (row.nodes or 1), "--batch-size": row.batch_size_per_device,
        "--data": row.data, "--seed": row.seed, "--epochs": row.epochs or None,
        "--lr": row.lr, "--until-target": next(iter(row.until_target.values()), None)}  # fmt: skip
    words = [word for flag, value in given.items() if value is not None for word in (flag, value)]
    return shlex.join(plain(word) for word in ("trainmark", "run", row.workload or row.model or ABSENT, *words))


def _results(lines: Sequence[Line], words: dict[str, str], lang: str) -> str:
    described = [describe_line(line, lang) for line in lines]
    names = shown_columns(described, in_report=True)
    rows = [[escape_markdown(cells[name]) for name in names] for cells in described]
    table = markdown_table([heading(name, lang) for name in names], rows)
    notes = [words["how"]]
    if any(line.estimate is not None and line.estimate.is_within_one_run for line in lines):
        notes.append(words["within_note"])
    if any(line.has_other_baseline for line in lines):
        notes.append(f"{escape_markdown(OTHER_BASELINE_MARK)} {words['other_base_note']}")
    if any(is_marked(line) for line in lines):
        notes.append(escape_markdown(words["marked_note"]))
    return "\n\n".join([f"## {words['results']}", table, *notes, *_remarks(lines, words, lang)])


def _remarks(lines: Sequence[Line], words: dict[str, str], lang: str) -> list[str]:
    """Per line, what limits its number: noise, doubts and broken laws."""
    items = [
        f"- {escape_markdown(cell_name(line.first) + words['colon'] + remark)}"
        for line in lines
        for remark in say_remarks(line, lang)
    ]
    return [f"### {words['remarks']}", "\n".join(items)] if items else []


def _scaling(studies: Sequence[Study], words: dict[str, str], lang: str) -> list[str]:
    parts = [f"## {words['scaling']}"] if studies else []
    for study, title in zip(studies, titles(studies, lang), strict=True):
        names = columns(study)
        rows = []
        for case in study.cases:
            cells = describe_case(case, lang)
            rows.append(
                [escape_markdown(text) for text in (*(cells[name] for name in names), explain(case, lang) or ABSENT)]
            )
        table = markdown_table([*(say_heading(name, lang) for name in names), words["why"]], rows)
        parts.append(f"### {escape_markdown(title)}\n\n{table}")
    return parts


def _logs(lines: Sequence[Line], words: dict[str, str], lang: str) -> str:
    rows = []
    warnings = warnings_of(lines)
    for run in (run for line in lines for run in line.runs):
        outcome = say_outcome(run, lang, with_code=True)
        problem = run.why.in_language(lang) if run.outcome != "ok" else ABSENT
        found = warnings[run.id]
        warned = say_first_warning(found, lang) if found else ABSENT
        texts = (run.id, *say_origin(run), outcome, format_seconds(run.wall_s), problem, warned)
        rows.append([escape_markdown(text) for text in texts])
    names = ("folder", "measured_utc", "host", "version", "commit", "outcome", "time", "problem", "warnings")
    header = [words[name] for name in names]
    return f"## {words['logs']}\n\n" + markdown_table(header, rows)
