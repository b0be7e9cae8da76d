"""`trainmark compare`: is B faster or slower than A, or the same?"""

from __future__ import annotations

import argparse
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli.output import IndexingNote, next_command, open_store, print_json, stdout_console
from trainmark.cli.parser import DEFAULT_STORE, add_json_option, add_store_option, number
from trainmark.cli.repeating import repeat_command, say_many
from trainmark.errors import InputError

if TYPE_CHECKING:
    from trainmark.analyse.comparison import CellComparison, Comparison

_WHAT = "a store, STORE@COMMIT, a folder of logs, a run id, a commit or branch, or NAME=VALUE such as precision=amp"
_MOST_TOLERANCE = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help=_WHAT)
    parser.add_argument("b", metavar="B", help="what is compared with A, given in the same ways")
    parser.add_argument(
        "--tolerance",
        type=number,
        default=0.01,
        metavar="X",
        help="smaller differences are the same: a fraction (default 0.01)",
    )
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME",
        help="a fact of the work that may differ, such as command, batch-size or devices; can be repeated",
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the answer")
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.analyse.comparison import compare
    from trainmark.cli.progress import file_progress
    from trainmark.controller.parity_proofs import read_proofs
    from trainmark.controller.selection import Selector, parse_vary
    from trainmark.report.comparison import describe_comparison, print_comparison

    if not 0 < args.tolerance <= _MOST_TOLERANCE:
        what = f"--tolerance: must be > 0 and <= {_MOST_TOLERANCE:g}, got {args.tolerance:g}"
        raise InputError(what, hint="0.01 is 1%")
    with ExitStack() as stack:
        selector = Selector(
            Path(args.store), open_store=open_store, stack=stack, tell=IndexingNote(), show_progress=file_progress
        )
        a, b = selector.select(args.a), selector.select(args.b)
        stores = [Path(store) for store in (args.store, a.store, b.store) if store is not None]
        proofs = read_proofs(stores, store=None if args.store == DEFAULT_STORE else args.store)
        found = compare(a, b, tolerance=args.tolerance, vary=parse_vary(args.vary), proofs=proofs)
        if args.json:
            print_json(schema=2, **describe_comparison(found))
        else:
            print_comparison(found, stdout_console(), lang=args.lang)
        _say_next(found, args)
    return 0


def _say_next(found: Comparison, args: argparse.Namespace) -> None:
    """More runs if they would decide, the option that admits a difference, or the report."""
    from trainmark.analyse.pairing import VARIABLE

    store = found.b.store
    blocking = {name for cell in found.cells for name in cell.blocking}
    undecided = [cell for cell in found.cells if cell.judgement.more_runs]
    most = max(undecided, key=lambda cell: cell.judgement.more_runs or 0, default=None)
    unproven = next((cell.judgement.why.params.get("command") for cell in found.cells if _is_unproven(cell)), None)
    again = None if most is None else _add_runs(most, found)
    if unproven is not None:
        next_command(str(unproven))  # names the store itself
    elif again is not None:
        next_command(again)  # names the store itself
    elif blocking and blocking <= VARIABLE:
        vary = " ".join(f"--vary {name.replace(' ', '-')}" for name in sorted(blocking))
        next_command(f"trainmark compare {shlex.join([args.a, args.b])} {vary}", store=args.store)
    elif store is None:
        next_command(f"trainmark import {shlex.quote(args.b)}", store=args.store)
    else:
        next_command("trainmark report" if found.cells else "trainmark show", store=store)


def _add_runs(cell: CellComparison, found: Comparison) -> str | None:
    """For the side that the reason names; else for the one with fewer runs, where each says more, or B, the newer."""
    runs_a, runs_b = cell.judgement.runs
    named = cell.judgement.why.params.get("side")
    is_a = named == "A" if named is not None else runs_a < runs_b
    group, side = (cell.a, found.a) if is_a else (cell.b, found.b)
    num = cell.judgement.more_runs or 1
    command = repeat_command(group.first.asked, num, store=side.store)
    return None if command is None else say_many(command, num)


def _is_unproven(cell: CellComparison) -> bool:
    """Two frameworks that a parity check could prove equal."""
    return cell.verdict == "not_comparable" and "command" in cell.judgement.why.params
