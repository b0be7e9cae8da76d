"""`trainmark accept`: admit runs that break a law, with a written reason."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli.output import IndexingNote, next_command, open_store, print_results, talk
from trainmark.cli.parser import add_json_option, add_store_option
from trainmark.units import format_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run ids or their beginnings")
    parser.add_argument("--law", required=True, metavar="LAW", help="such as superlinear: the code of the mark")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--because", metavar="TEXT", help="why the result is right; shown wherever the mark is")
    how.add_argument("--withdraw", action="store_true", help="take an earlier acceptance back")
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.accepting import accept_law, check_request
    from trainmark.controller.results import read_rows

    check_request(args.law, args.because)
    store = open_store(Path(args.store))
    rows = read_rows(store, args.runs, tell=IndexingNote())
    changed = accept_law(store, rows, args.law, args.because)
    if args.json:
        print_results(read_rows(store, changed, tell=IndexingNote()))
        return 0
    verb = "withdrawn" if args.withdraw else "accepted"
    talk(f"{args.law}: {verb} for {format_count(len(changed), 'runs')}: {', '.join(changed)}")
    next_command("trainmark show", store=args.store)
    return 0
