"""`trainmark plan`: the cells, what will be skipped here and why, how long it takes. Starts nothing."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.output import next_command, open_store, print_json, stdout_console, talk
from trainmark.cli.parser import add_spec_options, read_overrides
from trainmark.units import ABSENT, format_count, format_seconds, plain

if TYPE_CHECKING:
    from trainmark.controller.sweep import SweepRuns
    from trainmark.controller.workload import PlannedRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec_options(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.workload import SpecOptions, cell_commands, check_data, make_plan, preview

    plan = make_plan(SpecOptions(what=args.what, overrides=read_overrides(args), launcher=args.launcher))
    store = open_store(Path(args.store))
    check_data(plan)
    runs, sweep = preview(plan, store)
    commands = {key: shlex.join(argv) for key, argv in cell_commands(plan).items()}
    if args.json:
        cells = [_describe(run, commands) for run in runs]
        print_json(suite=plan.suite.name, cells=cells, total_s=_total_s(_left(runs)))
        return 0
    _print(runs)
    _print_elsewhere(runs, commands)
    if not plan.runnable:
        talk("nothing can run on this machine")  # no next command: `run` would refuse
        return 0
    _say_totals(runs, sweep)
    next_command(shlex.join(["trainmark", "run", *args.words[1:]]))
    return 0


def _left(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    return [run for run in runs if run.skip is None and not run.is_done]


def _total_s(runs: Sequence[PlannedRun]) -> float | None:
    """None if one of them has no time limit."""
    seconds = [run.duration.seconds for run in runs if run.duration.seconds is not None]
    return sum(seconds) if len(seconds) == len(runs) else None


def _describe(run: PlannedRun, commands: Mapping[str, str]) -> dict[str, Any]:
    from trainmark.plan.identity import cell_id

    return {
        "cell_id": cell_id(run.cell),
        **run.cell.to_json(),
        "skip": None if run.skip is None else run.skip.english,
        "done": run.is_done,
        "estimate_s": run.duration.seconds,
        "estimate_is_measured": run.duration.is_measured,
        "command": commands[cell_id(run.cell)],
    }


def _say_totals(runs: Sequence[PlannedRun], sweep: SweepRuns | None) -> None:
    left, num_skipped = _left(runs), sum(run.skip is not None for run in runs)
    num_done = len(runs) - num_skipped - len(left)
    if sweep is not None and num_done:
        begun = f"an unfinished sweep of {sweep.record.started} has done {num_done} of them"
        talk(f"{begun}; run continues it (--fresh starts over)")
    total_s = _total_s(left)
    is_known = all(run.duration.is_measured for run in left)
    time = "no time limit" if total_s is None else f"{'about' if is_known else 'at most'} {format_seconds(total_s)}"
    talk(f"{format_count(len(left), 'runs')}, {num_skipped} skipped, {time}")


def _print(runs: Sequence[PlannedRun]) -> None:
    from rich.text import Text

    from trainmark.plan.identity import cell_id
    from trainmark.report.layout import print_rows

    headings = ("cell", "what", "devices", "batch", "data", "repeat", "time")
    rows = []
    skipped: dict[str, list[str]] = {}
    for run in runs:
        cell, short_id = run.cell, cell_id(run.cell)[:6]
        values = (
            short_id,
            f"{cell.workload} {cell.framework} {cell.recipe} {cell.precision} {cell.size}",
            f"{cell.nodes} × {cell.devices_per_node} {cell.device}",
            cell.batch_size_per_device,
            str(cell.data).replace(f"{Path.cwd()}/", "", 1),  # as it was probably typed
            cell.repeat,
            _format_time(run),
        )
        rows.append([plain(value) for value in values])
        if run.skip is not None:
            skipped.setdefault(run.skip.english, []).append(short_id)
    console = stdout_console()
    print_rows(headings, rows, console, is_right=[heading in ("batch", "repeat") for heading in headings])
    for reason, cells in skipped.items():
        console.print(Text(f"skipped {', '.join(dict.fromkeys(cells))}: {reason}"))


def _print_elsewhere(runs: Sequence[PlannedRun], commands: Mapping[str, str]) -> None:
    """For what is skipped: one command for each cell, to be typed on a machine that can run it."""
    from trainmark.plan.identity import cell_id

    skipped = dict.fromkeys(cell_id(run.cell) for run in runs if run.skip is not None)
    if skipped:
        print("\nfor machines that can run what is skipped:")
    for key in skipped:
        print(f"  {key[:6]}  {commands[key]}")


def _format_time(run: PlannedRun) -> str:
    if run.skip is not None:
        return "skipped"
    if run.is_done:
        return "done"
    if run.duration.seconds is None:
        return ABSENT
    return f"{'' if run.duration.is_measured else '≤ '}{format_seconds(run.duration.seconds)}"
