"""`trainmark show`: the results of the store, or of some runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli.output import add_json_flag, add_store_flag, stdout_console
from trainmark.cli.results import open_store, print_results, read_rows, say_next
from trainmark.controller.scaling import read_asked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run ids, or the beginnings of some")
    parser.add_argument("--reindex", action="store_true", help="rebuild the index from the run folders first")
    parser.add_argument("--protocol", metavar="NAME", help="also aggregate as others do: `trainmark list protocols`")
    add_store_flag(parser)
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.analyse.scaling import build_studies
    from trainmark.analyse.table import build_lines
    from trainmark.report.scaling import describe_studies, print_studies

    if args.protocol is not None:
        from trainmark.analyse.protocols import parse_protocol

        parse_protocol(args.protocol)  # before anything is read or printed
    rows = read_rows(Path(args.store), args.runs, reindex=args.reindex)
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
    say_next(rows[::-1], open_store(Path(args.store)), given=args.store)  # of what failed, the latest
    return 0
