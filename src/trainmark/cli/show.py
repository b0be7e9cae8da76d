"""`trainmark show`: the results of the store, or one run on a page of its own."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli.output import IndexingNote, next_command, open_store, print_results, say_next, stdout_console
from trainmark.cli.parser import MOMENT, add_json_option, add_store_option, moment
from trainmark.errors import InputError

if TYPE_CHECKING:
    from trainmark.analyse.scaling import Study
    from trainmark.analyse.table import Line
    from trainmark.store.index import Store
    from trainmark.store.kept_answer import KeptAnswer
    from trainmark.store.rows import RunRow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="run ids or their beginnings (default: all); a single run gets a page"
    )
    which = parser.add_argument_group("which runs")
    which.add_argument("--workload", metavar="NAME", help="of this workload, or of this model in a log")
    which.add_argument("--since", type=moment, metavar="TIME", help=f"started since {MOMENT}")
    which.add_argument("--commit", metavar="COMMIT", help="of this commit or branch")
    which.add_argument("--failed", action="store_true", help="without a result: failed, killed, out of memory, ...")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--sort", metavar="NAME", help="by time, throughput, workload, precision, devices, batch or memory"
    )
    how.add_argument("--reverse", action="store_true", help="the greatest first, with --sort")
    how.add_argument("--columns", metavar="A,B", help="the columns of the table, however wide it gets")
    how.add_argument(
        "--protocol", metavar="NAME", help="also aggregate by a published method: see `trainmark list protocols`"
    )
    parser.add_argument("--reindex", action="store_true", help="rebuild the index from the run folders first")
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.store.kept_answer import KeptAnswer

    columns = None if args.columns is None else _parse_columns(args.columns)
    if args.protocol is not None:
        from trainmark.analyse.protocols import parse_protocol

        parse_protocol(args.protocol)  # refuse a bad one before anything is read or printed
    store, tell = open_store(Path(args.store)), IndexingNote()
    kept = None
    if _can_be_kept(args, store):
        store.sync(tell=tell)
        kept = KeptAnswer(store, _question(args))
        if (answer := kept.read()) is not None:
            following, _, text = answer.partition("\n")
            sys.stdout.write(text)
            next_command(following, store=args.store)
            return 0
    return _show(args, store, columns, kept, tell)


def _show(
    args: argparse.Namespace, store: Store, columns: list[str] | None, kept: KeptAnswer | None, tell: IndexingNote
) -> int:
    from trainmark.analyse.scaling import build_studies
    from trainmark.analyse.table import build_lines
    from trainmark.controller.filters import Filters, filter_rows, sort_lines
    from trainmark.controller.results import read_asked, read_rows
    from trainmark.report.scaling import describe_studies

    filters = Filters(workload=args.workload, since_unix_s=args.since, commit=args.commit, failed=args.failed)
    everything = read_rows(store, args.runs, reindex=args.reindex, is_synced=kept is not None, tell=tell)
    rows = filter_rows(everything, filters)
    lines = build_lines(rows)
    is_selection = len(rows) < len(everything) or bool(args.runs)
    studies = build_studies(lines, read_asked(store.root, rows, is_selection=is_selection))
    if args.sort is not None:
        lines = sort_lines(lines, args.sort, is_reversed=args.reverse)
    if args.json:
        ordered = rows if args.sort is None else [run for line in lines for run in line.runs]
        print_results(ordered, protocol=args.protocol, scaling=describe_studies(studies))
        return 0
    _print(args, store, rows, lines, studies, columns, kept)
    return 0


def _print(
    args: argparse.Namespace,
    store: Store,
    rows: list[RunRow],
    lines: tuple[Line, ...],
    studies: tuple[Study, ...],
    columns: list[str] | None,
    kept: KeptAnswer | None,
) -> None:
    from trainmark.report.console import print_protocol, say_lines
    from trainmark.report.layout import print_texts
    from trainmark.report.scaling import say_studies

    console = stdout_console()
    texts: list[str] = []
    if len(args.runs) == 1 and len(rows) == 1 and columns is None:
        from trainmark.report.run_page import print_run

        print_run(rows[0], store.root / rows[0].id, console)
    else:
        texts = [*say_lines(lines, console, columns=columns), *say_studies(studies, console)]
        print_texts(texts, console)
    if args.protocol is not None:
        print_protocol(rows, args.protocol, console)
    following = "trainmark report"
    if not args.runs and len(rows) > 1 and all(row.outcome == "ok" for row in rows):
        following = f"trainmark show {rows[-1].id}"
        next_command(following, store=args.store)
    else:
        say_next(rows[::-1], store, given=args.store)  # the latest run that failed
    if kept is not None and any(row.outcome == "ok" for row in rows):
        kept.write("\n".join([following, *texts, ""]))


def _can_be_kept(args: argparse.Namespace, store: Store) -> bool:
    """A table: documents and pages rest on more than the index."""
    return not (args.runs or args.json or args.reindex or args.protocol) and store.root.is_dir()


def _question(args: argparse.Namespace) -> list[object]:
    """What was typed, and all that tells how wide and how colourful the table may be."""
    sizes: list[object] = []
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            sizes.append((descriptor, os.get_terminal_size(descriptor)))
    variables = {name: os.environ.get(name) for name in _OF_TERMINALS}
    return [sys.stdout.isatty(), sizes, variables, {**vars(args), "run": None}]


_OF_TERMINALS = (
    "COLUMNS", "LINES", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
)  # fmt: skip


def _parse_columns(text: str) -> list[str]:
    """Names as in `--json`, which are also the names of the columns of a table."""
    from trainmark.report.columns import table_columns
    from trainmark.spec.checking import suggest

    known = list(table_columns())
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f"--columns: unknown value {name!r}", hint=suggest(name, known))
    return list(dict.fromkeys(names))
