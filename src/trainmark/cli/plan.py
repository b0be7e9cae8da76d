"""`trainmark plan`: the cells, what will be skipped here and why, how long it takes. Starts nothing."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.output import next_command, open_store, print_json, stdout_console, talk
from trainmark.cli.parser import add_spec_options, read_overrides
from trainmark.units import ABSENT, format_count, format_range_of_seconds, plain

if TYPE_CHECKING:
    from trainmark.controller.sweep import SweepRuns
    from trainmark.controller.workload import PlannedRun
    from trainmark.plan.estimate import Duration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec_options(parser)


def run(args: argparse.Namespace) -> int:
    from trainmark.controller.workload import (
        SpecOptions,
        cell_commands,
        check_data,
        check_start,
        make_plan,
        preview,
    )

    plan = make_plan(SpecOptions(what=args.what, overrides=read_overrides(args), launcher=args.launcher))
    store = open_store(Path(args.store))
    check_data(plan)
    check_start(plan, talk)
    runs, sweep = preview(plan, store)
    commands = {key: shlex.join(argv) for key, argv in cell_commands(plan).items()}
    if args.json:
        cells = [_describe(run, commands) for run in runs]
        total = _describe_time(_total(_left(runs)))
        print_json(suite=plan.suite.name, cells=cells, total_s=total[0], total_range_s=total[1])
        return 0
    _print(runs)
    _print_elsewhere(runs, commands)
    if not plan.runnable:
        talk("nothing can run on this machine")  # no next command: `run` would refuse
        return 0
    _say_totals(runs, sweep)
    next_command(shlex.join(["trainmark", "run", *args.words[1:]]))
    return 0


def _left(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    return [run for run in runs if run.skip is None and not run.is_done]


def _total(runs: Iterable[PlannedRun]) -> Duration | None:
    from trainmark.plan.estimate import total

    return total(run.duration for run in runs)


def _describe_time(duration: Duration | None) -> tuple[float | None, list[float] | None]:
    """One number, and the range around it."""
    return (None, None) if duration is None else (duration.middle_s, [duration.low_s, duration.high_s])


def _describe(run: PlannedRun, commands: Mapping[str, str]) -> dict[str, Any]:
    from trainmark.plan.identity import cell_id

    middle_s, range_s = _describe_time(run.duration)
    return {
        "cell_id": cell_id(run.cell),
        **run.cell.to_json(),
        "skip": None if run.skip is None else run.skip.english,
        "done": run.is_done,
        "estimate_s": middle_s,
        "estimate_range_s": range_s,
        "estimate_is_measured": run.duration is not None and run.duration.is_learned,
        "command": commands[cell_id(run.cell)],
    }


def _say_totals(runs: Sequence[PlannedRun], sweep: SweepRuns | None) -> None:
    left, num_skipped = _left(runs), sum(run.skip is not None for run in runs)
    num_done = len(runs) - num_skipped - len(left)
    if sweep is not None and num_done:
        begun = f"an unfinished sweep of {sweep.record.started} has done {num_done} of them"
        talk(f"{begun}; run continues it (--fresh starts over)")
    talk(f"{format_count(len(left), 'runs')}, {num_skipped} skipped, {_say_time(_total(left)) or 'no time limit'}")


def _print(runs: Sequence[PlannedRun]) -> None:
    """One row for each cell; its repeats are a number. What all cells share is said once, above."""
    from rich.text import Text

    from trainmark.plan.identity import cell_id
    from trainmark.report.layout import fold, print_rows

    cells: dict[str, list[PlannedRun]] = {}
    for run in runs:
        cells.setdefault(cell_id(run.cell), []).append(run)
    rows = [_row(key, repeats) for key, repeats in cells.items()]
    shared = [name for name in _FACTS if len({row[name] for row in rows}) == 1]
    headings = [name for name in rows[0] if name not in shared]
    console = stdout_console()
    if shared:
        said = ", ".join(rows[0][name] for name in shared)
        console.print(Text(fold(f"{'every cell' if len(rows) > 1 else 'the cell'}: {said}", console, indent=2)))
    texts = [[row[name] for name in headings] for row in rows]
    print_rows(headings, texts, console, is_right=[name in ("batch", "runs") for name in headings])
    skipped: dict[str, list[str]] = {}
    for key, repeats in cells.items():
        if (skip := repeats[0].skip) is not None:
            skipped.setdefault(skip.english, []).append(key[:6])
    for reason, keys in skipped.items():
        console.print(Text(f"skipped {', '.join(keys)}: {reason}"))


_FACTS = ("framework", "recipe", "precision", "size", "data")


def _row(key: str, repeats: Sequence[PlannedRun]) -> dict[str, str]:
    cell, skip = repeats[0].cell, repeats[0].skip
    values = {
        "cell": key[:6],
        "workload": cell.workload,
        **{name: getattr(cell, name) for name in _FACTS[:-1]},
        "devices": f"{cell.nodes} × {cell.devices_per_node} {cell.device}",
        "batch": cell.batch_size_per_device,
        "data": str(cell.data).replace(f"{Path.cwd()}/", "", 1),  # as it was probably typed
        "runs": _say_runs(repeats),
        "time": "skipped" if skip is not None else _say_time(_total(_left(repeats))) or ABSENT,
    }
    return {name: plain(value) for name, value in values.items()}


def _say_runs(repeats: Sequence[PlannedRun]) -> str:
    num_left = sum(not run.is_done for run in repeats)
    return f"{len(repeats)}" if num_left == len(repeats) else f"{num_left} of {len(repeats)}"


def _say_time(duration: Duration | None) -> str:
    if duration is None:
        return ""
    return format_range_of_seconds(duration.low_s, duration.high_s) if duration.high_s else "done"


def _print_elsewhere(runs: Sequence[PlannedRun], commands: Mapping[str, str]) -> None:
    """For what is skipped here and can run elsewhere: one command for each cell, to be typed there."""
    from trainmark.messages.skips import ON_EVERY_MACHINE
    from trainmark.plan.identity import cell_id

    elsewhere = (run for run in runs if run.skip is not None and run.skip.code not in ON_EVERY_MACHINE)
    skipped = dict.fromkeys(cell_id(run.cell) for run in elsewhere)
    if skipped:
        print("\nfor machines that can run what is skipped:")
    for key in skipped:
        print(f"  {key[:6]}  {commands[key]}")
