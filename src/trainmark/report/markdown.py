"""The report as Markdown, in the five parts that every report of this field has."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.analyse.scaling import Study, build_studies
from trainmark.analyse.table import Line, warnings_of
from trainmark.report.cells import OTHER_BASE_MARK, describe_line, shown_columns
from trainmark.report.recorded import say_first_warning, say_outcome
from trainmark.report.scaling import columns, describe_case, explain, titles
from trainmark.report.words import WORDS
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_bytes, format_seconds, plain

_NO_HTML = {ord("<"): "?", ord(">"): "?"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~])")


def render_markdown(lines: Sequence[Line], *, lang: str, studies: Sequence[Study] | None = None) -> str:
    """`studies` where somebody knows more than the lines: what was asked for and is missing."""
    words = WORDS[lang]
    if not any(line.estimate for line in lines):
        return (
            "\n\n".join([f"# {words['title']}", words["none"], *([_logs(lines, words, lang)] if lines else [])]) + "\n"
        )
    parts = [
        f"# {words['title']}",
        _environment(lines, words),
        _setup(lines, words),
        _steps(lines, words),
        _results(lines, words, lang),
        *_scaling(build_studies(lines) if studies is None else studies, words, lang),
        _logs(lines, words, lang),
    ]
    return "\n\n".join(parts) + "\n"


def _environment(lines: Sequence[Line], words: dict[str, str]) -> str:
    rows = []
    seen: set[tuple[str, ...]] = set()
    for line in lines:
        environment = line.first.environment
        row = (_machine(line.first, words), str(environment.get("system") or ABSENT), _software(environment))
        if row not in seen:
            seen.add(row)
            rows.append([_escape(cell) for cell in row])
    header = [words[name] for name in ("machine", "system", "software")]
    return f"## {words['environment']}\n\n" + _table(header, rows)


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


_SETUP = ("workload", "framework", "machine", "recipe", "precision", "devices", "batch", "data")


def _setup(lines: Sequence[Line], words: dict[str, str]) -> str:
    """Of the switches a line names those that it has otherwise than most; the usual ones stand below, once."""
    described = [describe_line(line, "en") for line in lines]
    names = tuple(name for name in shown_columns(described) if name in _SETUP)
    switches = [_switches(line) for line in lines]
    usual = _usual(switches)
    others = [{key: own for key in usual if (own := found.get(key, ABSENT)) != usual[key]} for found in switches]
    columns = (*names, "flags") if any(others) else names
    rows = []
    for cells, found, other in zip(described, switches, others, strict=True):
        told = (_say_switches(other) or ABSENT) if found else words["not_known"]
        rows.append([_escape({**cells, "flags": told}[name]) for name in columns])
    table = f"## {words['setup']}\n\n" + _table([words[name] for name in columns], rows)
    return f"{table}\n\n{words['usual_flags'].format(flags=_escape(_say_switches(usual)))}" if usual else table


def _switches(line: Line) -> dict[str, str]:
    flags = line.first.environment.get("flags")
    known = flags if isinstance(flags, dict) else {}
    return {str(key): ABSENT if value is None else str(value) for key, value in known.items()}


def _usual(switches: Sequence[dict[str, str]]) -> dict[str, str]:
    """The most frequent value of each; of equally frequent ones the first."""
    found: dict[str, Counter[str]] = {}
    for key, value in (item for known in switches for item in known.items()):
        found.setdefault(key, Counter())[value] += 1
    return {key: values.most_common(1)[0][0] for key, values in found.items()}


def _say_switches(switches: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in switches.items())


def _steps(lines: Sequence[Line], words: dict[str, str]) -> str:
    runs = (run for line in lines for run in line.runs if run.asked is not None or run is line.first)
    commands = dict.fromkeys(run.asked or _command(run) for run in runs)
    # A stranger's words may be HTML, and not every renderer leaves that alone in a listing.
    listing = "\n".join(f"    {plain(command).translate(_NO_HTML)}" for command in commands)
    return f"## {words['steps']}\n\n{words['commands']}\n\n{listing}"


def _command(row: RunRow) -> str:
    """Of a run that does not say how it was asked for: by what is known of it. Every word is quoted for a shell."""
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
    columns = shown_columns(described)
    extra = ("warmup", "steady", "memory")
    rows = []
    for line, cells in zip(lines, described, strict=True):
        estimate = line.estimate
        counts = (str(estimate.num_warmup_steps), str(estimate.num_steps)) if estimate else (ABSENT, ABSENT)
        peak = max((run.peak_memory_bytes or 0 for run in line.runs), default=0)
        rows.append([*(_escape(cells[name]) for name in columns), *counts, format_bytes(peak or None)])
    table = _table([words[name] for name in (*columns, *extra)], rows)
    note = (
        f"\n\n{_escape(OTHER_BASE_MARK)} {words['other_base_note']}"
        if any(line.has_other_baseline for line in lines)
        else ""
    )
    return f"## {words['results']}\n\n{table}\n\n{words['how']}{note}"


def _scaling(studies: Sequence[Study], words: dict[str, str], lang: str) -> list[str]:
    parts = [f"## {words['scaling']}"] if studies else []
    for study, heading in zip(studies, titles(studies, lang), strict=True):
        names = columns(study)
        rows = []
        for case in study.cases:
            cells = describe_case(case, lang)
            rows.append([_escape(text) for text in (*(cells[name] for name in names), explain(case, lang) or ABSENT)])
        table = _table([words[name] for name in (*names, "why")], rows)
        parts.append(f"### {_escape(heading)}\n\n{table}")
    return parts


def _logs(lines: Sequence[Line], words: dict[str, str], lang: str) -> str:
    rows = []
    warnings = warnings_of(lines)
    for run in (run for line in lines for run in line.runs):
        outcome = say_outcome(run, lang, with_code=True)
        problem = run.why.in_language(lang) if run.outcome != "ok" else ABSENT
        found = warnings[run.id]
        warned = say_first_warning(found, lang) if found else ABSENT
        texts = (run.id, outcome, format_seconds(run.wall_s), problem, warned)
        rows.append([_escape(text) for text in texts])
    header = [words[name] for name in ("folder", "outcome", "time", "problem", "warnings")]
    return f"## {words['logs']}\n\n" + _table(header, rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _escape(text: object) -> str:
    """Markdown and HTML from a stranger's path or log stay text."""
    return _SPECIAL.sub(r"\\\1", plain(text).replace("&", "&amp;"))
