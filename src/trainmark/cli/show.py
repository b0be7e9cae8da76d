"""`trainmark show`: the results of the store, or of some runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli.output import IndexingNote, open_store, print_results, say_next, stdout_console
from trainmark.cli.parser import add_json_option, add_store_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run ids or their beginnings (default: all)")
    parser.add_argument("--reindex", action="store_true", help="rebuild the index from the run folders first")
    parser.add_argument(
        "--protocol", metavar="NAME", help="also aggregate by a published method: see `trainmark list protocols`"
    )
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.analyse.scaling import build_studies
    from trainmark.analyse.table import build_lines
    from trainmark.controller.results import read_asked, read_rows
    from trainmark.report.scaling import describe_studies, print_studies

    if args.protocol is not None:
        from trainmark.analyse.protocols import parse_protocol

        parse_protocol(args.protocol)  # refuse a bad one before anything is read or printed
    rows = read_rows(open_store(Path(args.store)), args.runs, reindex=args.reindex, tell=IndexingNote())
    lines = build_lines(rows)
    studies = build_studies(lines, read_asked(Path(args.store), rows, is_selection=bool(args.runs)))
    if args.json:
        print_results(rows, protocol=args.protocol, scaling=describe_studies(studies))
        return 0
    from trainmark.report.console import print_lines, print_protocol

    console = stdout_console()
    print_lines(lines, console)
    print_studies(studies, console)
    if args.protocol is not None:
        print_protocol(rows, args.protocol, console)
    say_next(rows[::-1], open_store(Path(args.store)), given=args.store)  # the latest run that failed
    return 0
