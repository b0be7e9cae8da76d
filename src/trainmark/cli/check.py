"""`trainmark check`: judge the latest runs against a baseline file; for CI."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli.output import (
    IndexingNote,
    next_command,
    open_store,
    print_json,
    stdout_console,
    talk,
    write_whole,
)
from trainmark.cli.parser import MOMENT, add_json_option, add_store_option, moment, path_word
from trainmark.cli.repeating import repeat_command
from trainmark.controller.baseline_file import DEFAULT
from trainmark.errors import InputError

if TYPE_CHECKING:
    from trainmark.analyse.gate_result import GateResult
    from trainmark.controller.checking import Measured

_NOTHING_MEASURED = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit codes: 0 pass, 1 a run failed, 2 bad input, 3 regression, 4 inconclusive or not measured. "
        "Run and check in one go: trainmark run SUITE --repeat 3 && trainmark check"
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="only the cells of these suites (default: all)")
    parser.add_argument(
        "--baseline", type=path_word, default=DEFAULT, metavar="FILE", help=f"accepted results (default: {DEFAULT})"
    )
    parser.add_argument(
        "--since",
        type=moment,
        metavar="TIME",
        help=f"judge only runs started since {MOMENT}",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--update", action="store_true", help="accept the latest runs: write them to the baseline")
    what.add_argument(
        "--replay", action="store_true", help="judge every earlier measurement in the store too; print the alarm rates"
    )
    parser.add_argument("--junit", type=path_word, metavar="FILE", help="write the result as JUnit XML")
    add_store_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.checking import check, read_measured

    _refuse_combinations(args)
    measured = read_measured(open_store(Path(args.store)), since_unix_s=args.since, tell=IndexingNote())
    if args.update:
        return _update(measured, args)
    if args.replay:
        return _replay(measured, args)
    result = check(measured, Path(args.baseline), args.suites)
    _write_files(result, args)
    _print(result, args)
    _say_next(result, measured, args)
    return result.exit_code


def _refuse_combinations(args: argparse.Namespace) -> None:
    other = "--update" if args.update else "--replay" if args.replay else None
    if args.junit is not None and other is not None:
        raise InputError(f"--junit cannot be combined with {other}", hint="leave one of them out")
    if args.since is not None and args.replay:
        raise InputError("--since cannot be combined with --replay", hint="--replay judges the whole history")


def _write_files(result: GateResult, args: argparse.Namespace) -> None:
    """JUnit XML where it was asked for; on GitHub Actions also annotations and the summary of the step."""
    from trainmark.report.github import list_annotations, render_summary
    from trainmark.report.junit import render_junit

    if args.junit is not None:
        write_whole({Path(args.junit): render_junit(result)}, what="JUnit file", make_folders=True)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in list_annotations(result, args.baseline):
            talk(line)  # the runner reads commands on stderr too; stdout may be a JSON document
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(render_summary(result))
        except OSError as error:
            talk(f"cannot write GITHUB_STEP_SUMMARY: {error.strerror or error}")


def _print(result: GateResult, args: argparse.Namespace) -> None:
    from trainmark.report.gate import describe_gate, print_gate

    if args.json:
        print_json(schema=2, **describe_gate(result))
    else:
        print_gate(result, stdout_console())


def _say_next(result: GateResult, measured: Measured, args: argparse.Namespace) -> None:
    from trainmark.analyse.gate_result import Status

    if result.status in (Status.REGRESSION, Status.FAILED):
        next_command("trainmark show", store=args.store)
    elif result.status in (Status.INCONCLUSIVE, Status.NOT_MEASURED):
        _say_more_runs(result, measured, args)
    elif result.status is Status.PASS and not result.with_status(Status.NEW):
        next_command(f"trainmark check --replay{_say_baseline(args)}", store=args.store)
    else:
        next_command(f"trainmark check --update{_say_baseline(args)}", store=args.store)


def _say_more_runs(result: GateResult, measured: Measured, args: argparse.Namespace) -> None:
    """The command of the cell that needs most runs, then this check again; nothing where more runs would not decide."""
    from trainmark.controller.more_runs import find_more_runs

    commands = [
        (more.repeat, command)
        for more in find_more_runs(result, measured)
        if (command := repeat_command(more.asked, more.repeat, store=args.store)) is not None
    ]
    if not commands:
        return
    _, command = max(commands, key=lambda found: found[0])
    again = ["trainmark", "check", *args.suites]
    since = "" if args.since is None else f" --since {args.since:.0f}"
    next_command(f"{command} && {shlex.join(again)}{_say_baseline(args)}{since}", store=args.store)


def _say_baseline(args: argparse.Namespace) -> str:
    return "" if args.baseline == DEFAULT else f" --baseline {shlex.quote(args.baseline)}"


def _update(measured: Measured, args: argparse.Namespace) -> int:
    from trainmark.controller.checking import update
    from trainmark.report.gate_update import describe_update, print_update

    found = update(measured, Path(args.baseline), args.suites)
    parts = found.changes, found.kept, found.refusals, args.baseline
    if args.json:
        print_json(schema=2, **describe_update(*parts))
    else:
        print_update(*parts, stdout_console())
    if found.refusals:
        return 1 if any(refusal.is_failed_run for refusal in found.refusals) else _NOTHING_MEASURED
    if not found.changes:
        return _NOTHING_MEASURED
    next_command(f"git add {shlex.quote(args.baseline)}")
    return 0


def _replay(measured: Measured, args: argparse.Namespace) -> int:
    from trainmark.controller.checking import replay
    from trainmark.report.gate_replay import describe_replay, print_replay

    found = replay(measured, Path(args.baseline))
    if args.json:
        print_json(schema=2, **describe_replay(found))
    else:
        print_replay(found, stdout_console())
    next_command(f"trainmark check{_say_baseline(args)}", store=args.store)
    return 0 if any(cell.num_judged for cell in found) else _NOTHING_MEASURED
