"""`trainmark run`: measures a workload, a suite or a command."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli.output import (
    exit_code_of,
    next_command,
    open_store,
    print_commands,
    print_json,
    print_results,
    say_next,
    stdout_console,
    talk,
)
from trainmark.cli.parser import add_spec_options, integer, read_overrides
from trainmark.errors import InputError
from trainmark.runfolder.files import OUTPUT_FILE
from trainmark.units import format_count

if TYPE_CHECKING:
    from trainmark.controller.command import CommandOptions
    from trainmark.controller.execute import RunRequest, SweepResult
    from trainmark.controller.listener import Listener
    from trainmark.controller.workload import Plan
    from trainmark.launch.job import Prints
    from trainmark.redaction import Redactor
    from trainmark.store.rows import RunRow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec_options(parser, is_optional=True)
    parser.add_argument(
        "command",
        metavar="-- CMD",
        nargs="*",
        help="a command; {devices} {batch_size} {precision} {seed} in it are filled in from the options",
    )
    parser.add_argument("--pattern", metavar="FILE", help="TOML with regular expressions for the command's output")
    parser.add_argument(
        "--no-observe", action="store_true", help="do not look for optimizer steps inside the command's processes"
    )
    parser.add_argument(
        "--no-preflight", action="store_true", help="do not check the machines of --hosts or an allocation first"
    )
    parser.add_argument("--fresh", action="store_true", help="start over instead of continuing an unfinished sweep")
    parser.add_argument(
        "--retries",
        type=integer(0, 100),
        default=1,
        metavar="N",
        help="repeat a run that hung, was killed or lost a connection (default: 1)",
    )
    parser.add_argument(
        "--find-batch",
        action="store_true",
        help="first find the largest batch per device that fits, starting at --batch-size; then measure with it",
    )
    parser.add_argument(
        "--resume", action="store_true", help="resume the same training from the checkpoint of an unfinished run"
    )


def run(args: argparse.Namespace) -> int:
    from trainmark.cli.progress import RunProgress
    from trainmark.controller.command import command_request
    from trainmark.controller.execute import SweepOptions, run_sweep
    from trainmark.controller.preflight import check_machines
    from trainmark.controller.workload import with_largest_batches, workload_request
    from trainmark.launch.registry import launchers

    prints = launchers().load(args.launcher).prints
    _refuse_combinations(args, is_rendered=prints is not None)
    with RunProgress() as progress:
        plan = None if args.command is not None else _plan_workload(args, progress)
        request = command_request(_command_options(args)) if plan is None else workload_request(plan)
        if prints is not None:
            return _render(request, prints, args)
        if not args.no_preflight:
            check_machines(request.tasks, Path(args.store), progress)
        store = open_store(Path(args.store))
        if plan is not None and args.find_batch:
            request = with_largest_batches(request, plan, store, progress)
        options = SweepOptions(
            command_line=shlex.join(["trainmark", *_redactor(args).words(args.words)]),
            retries=args.retries,
            fresh=args.fresh,
            resume=args.resume,
        )
        result = run_sweep(request, store, options, progress)
    _print(result, is_json=args.json)
    if result.interrupt is not None:
        done = f"{result.num_done} of {format_count(result.num_runs, 'runs')} done"
        talk(f"interrupted with {done}; results are kept in {store.root}; run the same command to continue")
        return exit_code_of(result.interrupt)
    _say_missing_peak(result.rows)
    if (unread := _find_unread(result.rows)) is not None:
        output = shlex.quote(str(store.root / unread / OUTPUT_FILE))
        next_command(f"trainmark import {output} --pattern FILE.toml", store=args.store)
        return 1
    if result.rows and not any(row.outcome == "ok" for row in result.rows) and store.rows(outcome="ok"):
        # A report would be about the other runs of the store.
        next_command(f"trainmark show {result.rows[0].id}", store=args.store)
    else:
        say_next(result.rows, store, given=args.store)
    return 0 if all(row.outcome == "ok" for row in result.rows) else 1


def _say_missing_peak(rows: Sequence[RunRow]) -> None:
    from trainmark.analyse.table import build_lines
    from trainmark.analyse.utilisation import find_missing_peak

    if (missing := find_missing_peak(build_lines(rows))) is not None:
        talk(f"note: no MFU: {missing}")


def _find_unread(rows: Sequence[RunRow]) -> str | None:
    """The first run that ended well but has no speed."""
    from trainmark.analyse.analysis import estimate_run

    return next((row.id for row in rows if row.outcome == "ok" and estimate_run(row) is None), None)


def _refuse_combinations(args: argparse.Namespace, *, is_rendered: bool) -> None:
    """Options that cannot be used together."""
    if args.command is None:
        if args.pattern is not None:
            raise InputError("--pattern needs a command", hint="trainmark run --pattern FILE.toml -- CMD ...")
        if args.what is None:
            raise InputError("nothing to run", hint="trainmark run quick, or trainmark run -- python train.py")
        if args.find_batch and is_rendered:
            what = f"--find-batch cannot be combined with --launcher {args.launcher}"
            raise InputError(what, why="it needs real runs", hint="leave one of them out")
        return
    if args.what is not None:
        why = f"got {args.what!r} before --"
        raise InputError("a workload cannot be combined with a command", why=why, hint="leave one of them out")
    if args.find_batch:
        hint = "pass --batch-size A,B with {batch_size} in the command"
        raise InputError("--find-batch cannot be combined with a command", hint=hint)
    if args.resume:
        why = "trainmark writes no checkpoints for commands; an unfinished sweep continues without it"
        hint = "leave it out, or pass the script its own option"
        raise InputError("--resume cannot be combined with a command", why=why, hint=hint)


def _plan_workload(args: argparse.Namespace, listener: Listener) -> Plan:
    from trainmark.controller.workload import SpecOptions, check_data, check_start, make_plan, refuse_idle

    plan = make_plan(SpecOptions(what=args.what, overrides=read_overrides(args), launcher=args.launcher))
    if args.resume and not any(cell.is_training for cell in plan.cells):
        why = "only trainings have checkpoints; an unfinished sweep of measurements continues without it"
        raise InputError("--resume: nothing to resume", why=why, hint="pass the same --epochs or --until-target")
    refuse_idle(plan, listener)
    check_data(plan)
    check_start(plan, listener.say)
    return plan


def _command_options(args: argparse.Namespace) -> CommandOptions:
    from trainmark.controller.command import CommandOptions

    return CommandOptions(
        words=tuple(args.command),
        overrides=read_overrides(args),
        launcher=args.launcher,
        pattern=None if args.pattern is None else Path(args.pattern),
        redactor=_redactor(args),
        observe=not args.no_observe,
    )


def _redactor(args: argparse.Namespace) -> Redactor:
    """A dry run makes nothing, so it makes no salt either."""
    from trainmark.launch.registry import launchers
    from trainmark.redaction import Redactor

    is_dry = launchers().load(args.launcher).prints is not None
    return Redactor(Path(args.store), may_make_salt=not is_dry)


def _render(request: RunRequest, prints: Prints, args: argparse.Namespace) -> int:
    """What would be started, without starting it."""
    from trainmark.controller.launching import dry_commands, pod_manifests
    from trainmark.launch.kubernetes import to_text

    if prints == "commands":
        print_commands(dry_commands(request.tasks, Path(args.store)), is_json=args.json)
        return 0
    manifests = pod_manifests(request.tasks)
    if args.json:
        print_json(manifests=manifests)
        talk("nothing was started")
    else:
        print(to_text(manifests), end="")
        talk("nothing was started: pipe this into kubectl apply -f -")
    return 0


def _print(result: SweepResult, *, is_json: bool) -> None:
    from trainmark.analyse.scaling import build_studies
    from trainmark.analyse.table import build_lines
    from trainmark.report.console import print_lines
    from trainmark.report.scaling import describe_studies, print_studies

    lines = build_lines(result.rows)
    studies = build_studies(lines, result.asked)
    if is_json:
        print_results(result.rows, scaling=describe_studies(studies))
        return
    console = stdout_console()
    print_lines(lines, console)
    print_studies(studies, console)
