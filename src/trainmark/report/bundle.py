"""The files of a report: one document, or a folder with the document, its charts and copies of the logs beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from trainmark.report.charts.svg import Chart, standalone
from trainmark.report.contents import Contents
from trainmark.report.figures import draw_studies, draw_throughput
from trainmark.store.log_files import LogFile
from trainmark.store.rows import RunRow

CHARTS, LOGS = "charts", "logs"
NAMES = {"html": "report.html", "md": "report.md"}


def render_document(contents: Contents, kind: str, *, charts: Sequence[Chart] = ()) -> str:
    """`charts`: those that lie beside a Markdown report."""
    if kind == "html":
        from trainmark.report.html.page import render_html

        return render_html(contents)
    from trainmark.report.markdown import render_markdown

    return render_markdown(contents, charts=charts)


def render_folder(contents: Contents, kind: str, folder: Path) -> dict[Path, str | Path]:
    """All files by path: texts, and the logs that are copied."""
    names = {
        run.id: f"{LOGS}/{_log_name(run, contents.logs[run.id])}" for run in contents.runs if _is_copied(run, contents)
    }
    linked = replace(contents, links={run_id: quote(name) for run_id, name in names.items()})
    charts = draw_charts(contents)
    return {
        folder / NAMES[kind]: render_document(linked, kind, charts=charts),
        **{folder / CHARTS / f"{chart.name}.svg": standalone(chart) for chart in charts},
        **{folder / name: contents.logs[run_id].path for run_id, name in names.items()},
    }


def draw_charts(contents: Contents) -> list[Chart]:
    from trainmark.report.run_figures import draw_runs  # needs the steps and numpy, which a single file does without

    lines, lang = contents.lines, contents.lang
    studies = draw_studies(contents.studies, lang)
    runs, _ = draw_runs(lines, lang)
    inside = [chart for one in runs for chart in (one.steps, *one.others)]
    scaling = [chart for one in studies for chart in (one.curve, one.losses)]
    return [chart for chart in (*draw_throughput(lines, lang), *scaling, *inside) if chart is not None]


def _is_copied(run: RunRow, contents: Contents) -> bool:
    """One that is too large for a digest stays where it is: a sparse file would fill the disk."""
    log = contents.logs.get(run.id)
    return log is not None and log.num_bytes is not None and log.sha256 is not None


def _log_name(run: RunRow, log: LogFile) -> str:
    """Unique, and a plain name: a run id is that of a folder, and a file of someone else may be called anything."""
    ending = log.path.suffix if log.path.suffix.isascii() and log.path.suffix[1:].isalnum() else ".log"
    stem = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in run.id)
    return f"{stem[:150]}{ending}"


def link_logs(logs: Mapping[str, LogFile], folder: Path) -> dict[str, str]:
    """From a document in `folder` to the logs where they are."""
    return {
        run_id: quote(os.path.relpath(log.path, folder), errors="surrogateescape")
        for run_id, log in logs.items()
        if log.num_bytes is not None
    }
