"""Every run of a report as one entry: when, how it ended, what it measured, its warnings, its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainmark.analyse.analysis import estimate_run
from trainmark.analyse.warnings import warnings_of
from trainmark.report.cells import say_unit
from trainmark.report.commands import is_imported
from trainmark.report.contents import Contents
from trainmark.report.page_words import PAGE_WORDS
from trainmark.report.provenance import say_origin
from trainmark.report.words import WORDS, say_coded_warning, say_outcome
from trainmark.store.log_files import LogFile
from trainmark.store.rows import RunRow
from trainmark.units import ABSENT, format_bytes, format_number, format_plus_minus, format_seconds, plain

_SHORT = 12


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    id: str
    name: str
    """The id, or for an imported log the name of its file."""
    is_imported: bool
    read_as: str
    measured: str
    outcome: str
    is_ok: bool
    time: str
    result: str
    problem: str
    """Empty if there is none."""
    warnings: tuple[str, ...]
    link: str
    """Where the log is, as seen from the document; empty if it is not there."""
    log: str
    """Its size, or why it is missing."""
    sha256: str
    """Empty if unknown."""

    @property
    def is_quiet(self) -> bool:
        return self.is_ok and not self.warnings

    @property
    def digest(self) -> str:
        return self.sha256[:_SHORT]


def list_entries(contents: Contents) -> list[RunEntry]:
    """In the order of the lines."""
    warnings = warnings_of(contents.lines)
    return [_describe(run, warnings[run.id], contents) for run in contents.runs]


def _describe(run: RunRow, warnings: Sequence[dict[str, object]], contents: Contents) -> RunEntry:
    lang = contents.lang
    log = contents.logs.get(run.id)
    is_foreign = is_imported(run)
    return RunEntry(
        id=plain(run.id),
        name=plain(run.source.rsplit("/", 1)[-1] if is_foreign else run.id),
        is_imported=is_foreign,
        read_as=plain(run.dialect or ABSENT),
        measured=plain(say_origin(run)[0]),
        outcome=plain(say_outcome(run, lang, with_code=True)),
        is_ok=run.outcome == "ok",
        time=format_seconds(run.wall_s),
        result=_say_result(run, lang),
        problem="" if run.outcome == "ok" else plain(run.why.in_language(lang)),
        warnings=tuple(_say_warnings(warnings, lang)),
        link=contents.links.get(run.id, "") if log is not None and log.num_bytes is not None else "",
        log=_say_log(log, lang),
        sha256=(log.sha256 if log is not None else None) or "",
    )


def _say_result(run: RunRow, lang: str) -> str:
    estimate = estimate_run(run)
    if estimate is None:
        return ABSENT
    if estimate.is_too_noisy:
        return WORDS[lang]["too_noisy"]
    value = f"{format_number(estimate.value)} {say_unit(run.unit, lang)}"
    relative = estimate.relative_half_width
    return plain(value if relative is None else f"{value} {format_plus_minus(relative)}")


def _say_warnings(warnings: Sequence[dict[str, object]], lang: str) -> list[str]:
    """One sentence for each code."""
    counts: dict[object, list[dict[str, object]]] = {}
    for warning in warnings:
        counts.setdefault(warning["code"], []).append(warning)
    return [plain(say_coded_warning(same[0], lang, num=len(same))) for same in counts.values()]


def _say_log(log: LogFile | None, lang: str) -> str:
    words = PAGE_WORDS[lang]
    if log is None:
        return ABSENT
    if log.num_bytes is None:
        return words["gone"]
    changed = f" ({words['changed']})" if log.is_changed else ""
    return f"{format_bytes(log.num_bytes)}{changed}"
