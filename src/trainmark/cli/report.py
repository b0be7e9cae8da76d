"""`trainmark report`: the results as a document."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from trainmark.cli.output import (
    IndexingNote,
    next_command,
    open_store,
    print_results,
    stdout_console,
    talk,
    write_whole,
)
from trainmark.cli.parser import add_json_option, add_store_option, path_word
from trainmark.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run ids or their beginnings (default: all)")
    parser.add_argument("--format", choices=("md", "console"), default="md", help="default: md")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the report")
    parser.add_argument("--output", "-o", type=path_word, metavar="FILE", help="write to FILE (-: stdout, the default)")
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.analyse.scaling import build_studies
    from trainmark.analyse.table import build_lines
    from trainmark.controller.results import read_asked, read_rows
    from trainmark.report.scaling import describe_studies, print_studies

    if args.json and (args.output is not None or args.format == "console"):
        flag = "--output" if args.output is not None else "--format console"
        store = ["--store", args.store] if args.store != "runs" else []
        again = ["trainmark", "report", *args.runs, "--json", *store]
        hint = f"--json prints on stdout: {shlex.join(again)} > {shlex.quote(args.output or 'FILE')}"
        raise InputError(f"--json cannot be combined with {flag}", hint=hint)
    if args.format == "console" and args.output is not None:
        raise InputError("--output cannot be combined with --format console", hint="use --format md")
    rows = read_rows(open_store(Path(args.store)), args.runs, tell=IndexingNote())
    lines = build_lines(rows)
    studies = build_studies(lines, read_asked(Path(args.store), rows, is_selection=bool(args.runs)))
    if args.json:
        print_results(rows, scaling=describe_studies(studies))
        return 0
    if args.format == "console":
        from trainmark.report.console import print_lines

        console = stdout_console()
        print_lines(lines, console, lang=args.lang)
        print_studies(studies, console, lang=args.lang)
        return 0
    from trainmark.report.markdown import render_markdown

    text = render_markdown(lines, lang=args.lang, studies=studies)
    if args.output in (None, "-"):
        print(text, end="")
    else:
        write_whole({Path(args.output): text}, what="report")
        talk(f"report written to {args.output}")
    next_command("trainmark show", store=args.store)
    return 0
