"""`trainmark report`: the results as a document."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import trainmark
from trainmark.cli.output import (
    IndexingNote,
    next_command,
    open_store,
    print_results,
    refuse_extension,
    stdout_console,
    talk,
    write_whole,
)
from trainmark.cli.parser import add_json_option, add_store_option, path_word
from trainmark.errors import InputError

if TYPE_CHECKING:
    from trainmark.analyse.scaling import Study
    from trainmark.analyse.table import Line
    from trainmark.report.contents import Contents

_EXTENSIONS = {"html": (".html", ".htm"), "md": (".md", ".markdown", ".txt")}
_WRITTEN = {"html": "an HTML page", "md": "Markdown"}
_HINTS = {
    "html": "use a name that ends in .html, or --format md",
    "md": "use a name that ends in .md; or --format html and .html, a page that a browser prints as PDF",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run ids or their beginnings (default: all)")
    parser.add_argument(
        "--format", choices=("md", "html", "console"), help="default: html where --output ends in .html, else md"
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the report")
    parser.add_argument(
        "--output",
        "-o",
        type=path_word,
        metavar="PATH",
        help="write to a file (-: stdout, the default); a folder, or a name that ends in /, gets the document with its "
        "charts and logs beside it",
    )
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.analyse.scaling import build_studies
    from trainmark.analyse.table import build_lines
    from trainmark.controller.results import read_asked, read_rows
    from trainmark.report.scaling import describe_studies, print_studies

    kind = args.format or ("html" if str(args.output or "").lower().endswith(_EXTENSIONS["html"]) else "md")
    _refuse(args, kind)
    rows = read_rows(open_store(Path(args.store)), args.runs, tell=IndexingNote())
    lines = build_lines(rows)
    studies = build_studies(lines, read_asked(Path(args.store), rows, is_selection=bool(args.runs)))
    if args.json:
        print_results(rows, scaling=describe_studies(studies))
        return 0
    if kind == "console":
        from trainmark.report.console import print_lines

        console = stdout_console()
        print_lines(lines, console, lang=args.lang)
        print_studies(studies, console, lang=args.lang)
        return 0
    _write(_collect(lines, studies, args), kind, args.output)
    next_command("trainmark show", store=args.store)
    return 0


def _refuse(args: argparse.Namespace, kind: str) -> None:
    if args.json and (args.output is not None or kind == "console"):
        flag = "--output" if args.output is not None else "--format console"
        store = ["--store", args.store] if args.store != "runs" else []
        again = ["trainmark", "report", *args.runs, "--json", *store]
        hint = f"--json prints on stdout: {shlex.join(again)} > {shlex.quote(args.output or 'FILE')}"
        raise InputError(f"--json cannot be combined with {flag}", hint=hint)
    if kind == "console" and args.output is not None:
        raise InputError("--output cannot be combined with --format console", hint="use --format md or --format html")
    if args.output not in (None, "-") and not _is_folder(args.output):
        refuse_extension(Path(args.output), _EXTENSIONS[kind], what=_WRITTEN[kind], hint=_HINTS[kind])


def _is_folder(output: str) -> bool:
    return output.endswith(os.sep) or Path(output).is_dir()


def _collect(lines: tuple[Line, ...], studies: tuple[Study, ...], args: argparse.Namespace) -> Contents:
    from trainmark.analyse.references import load_references
    from trainmark.report.contents import Contents
    from trainmark.store.log_files import find_log

    root = Path(args.store)
    return Contents(
        lines=lines,
        studies=studies,
        lang=args.lang,
        made_unix_s=time.time(),
        version=trainmark.__version__,
        references=load_references(),
        logs={run.id: find_log(root, run) for line in lines for run in line.runs},
    )


def _write(contents: Contents, kind: str, output: str | None) -> None:
    from dataclasses import replace

    from trainmark.report.bundle import NAMES, link_logs, render_document, render_folder

    if output in (None, "-"):
        print(render_document(replace(contents, links=link_logs(contents.logs, Path())), kind), end="")
        return
    path = Path(output)
    if _is_folder(output):
        write_whole(render_folder(contents, kind, path), what="report", make_folders=True)
        talk(f"report written to {path / NAMES[kind]}, with its charts and logs beside it")
        return
    # /dev/stdout is stdout: links begin where the user is, not in /dev.
    beside = Path() if output.startswith(("/dev/", "/proc/")) else path.parent
    linked = replace(contents, links=link_logs(contents.logs, beside))
    write_whole({path: render_document(linked, kind)}, what="report")
    talk(f"report written to {output}")
