"""Reports of lines, as the command makes them, with a fixed date and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.analyse.scaling import Study, build_studies
from trainmark.analyse.table import Line
from trainmark.report.contents import Contents
from trainmark.report.html.page import render_html
from trainmark.report.markdown import render_markdown
from trainmark.store.log_files import LogFile, find_log


def contents_of(
    lines: Sequence[Line],
    *,
    lang: str = "en",
    studies: Sequence[Study] | None = None,
    root: Path | None = None,
    links: Mapping[str, str] | None = None,
    **more: Any,
) -> Contents:
    """`root`: of the store, whose logs are then named with their digests."""
    logs: dict[str, LogFile] = {}
    if root is not None:
        logs = {run.id: find_log(root, run) for line in lines for run in line.runs}
    return Contents(
        lines=lines,
        studies=build_studies(lines) if studies is None else studies,
        lang=lang,
        made_unix_s=1_800_000_000.0,
        version="0.1.0",
        logs=logs,
        links=links or {},
        **more,
    )


def markdown_of(lines: Sequence[Line], **more: Any) -> str:
    return render_markdown(contents_of(lines, **more))


def html_of(lines: Sequence[Line], **more: Any) -> str:
    return render_html(contents_of(lines, **more))
