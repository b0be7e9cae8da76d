"""`trainmark plan`: the cells, what will be skipped here and why, how long it takes. Runs nothing."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.cli.results import open_store, refuse_file
from trainmark.cli.run import check_data, sweep_settings, workload_tasks
from trainmark.cli.specify import Plan, add_spec_arguments, make_plan
from trainmark.controller.execute import content_of
from trainmark.controller.sweep import SweepRuns, find_unfinished
from trainmark.launch.registry import launchers
from trainmark.plan.estimate import estimate
from trainmark.plan.identity import cell_id
from trainmark.units import ABSENT, format_count, format_seconds, plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec_arguments(parser)


def run(args: argparse.Namespace) -> int:
    plan = make_plan(args)
    refuse_file(Path(args.store))
    if not launchers().load(args.launcher).has_own_files:
        check_data(plan.runnable)
    sweep = _unfinished(plan, Path(args.store), args.launcher)
    entries = _describe(plan, sweep, Path(args.store))
    left = [entry for entry in entries if entry["skip"] is None and not entry["done"]]
    seconds = [entry["estimate_s"] for entry in left]
    total_s = None if None in seconds else sum(seconds)
    if args.json:
        print_json(suite=plan.suite.name, cells=entries, total_s=total_s)
        return 0
    _print(entries)
    num_runs = len(entries) - len(plan.skipped)
    if num_runs == 0:
        talk("nothing can run on this machine")  # and run would refuse: there is no next command
        return 0
    known = all(entry["estimate_is_measured"] for entry in left)
    time = f"{'about' if known else 'at most'} {format_seconds(total_s)}" if total_s is not None else "no limit of time"
    if sweep is not None and len(left) < num_runs:
        begun = f"the unfinished sweep of {sweep.record.started} has done {num_runs - len(left)} of them"
        talk(f"{begun}; run continues it (--fresh starts anew)")
    talk(f"{format_count(len(left), 'runs')}, {len(plan.skipped)} skipped, {time}")
    next_command(shlex.join(["trainmark", "run", *args.words[1:]]))
    return 0


def _unfinished(plan: Plan, store: Path, launcher: str) -> SweepRuns | None:
    if not store.is_dir():
        return None
    content = content_of(workload_tasks(plan, plan.runnable, launcher=launcher), sweep_settings(plan.machine))
    return find_unfinished(content, open_store(store))


def _describe(plan: Plan, sweep: SweepRuns | None, store: Path) -> list[dict[str, Any]]:
    earlier = _earlier(store)
    entries = []
    for cell in plan.cells:
        duration = estimate(cell, plan.suite.measure, earlier)
        entries.append(
            {
                "cell_id": cell_id(cell),
                **cell.to_json(),
                "skip": plan.skipped[cell].english if cell in plan.skipped else None,
                "done": sweep is not None and sweep.answer(cell) is not None,
                "estimate_s": duration.seconds,
                "estimate_is_measured": duration.is_measured,
            }
        )
    return entries


def _as_typed(data: str) -> str:
    """Probably: a cell has the whole path."""
    return data.replace(f"{Path.cwd()}/", "", 1)


def _earlier(store: Path) -> dict[str, list[float]]:
    """What runs took here before; nothing is created where there is no store yet."""
    if not store.is_dir():
        return {}
    from trainmark.store.index import Store

    return Store(store).wall_seconds()


def _print(entries: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from trainmark.report.layout import print_rows

    headings = ("cell", "what", "devices", "batch", "data", "repeat", "time")
    rows = []
    skipped: dict[str, list[str]] = {}
    for entry in entries:
        what = f"{entry['workload']} {entry['framework']} {entry['recipe']} {entry['precision']} {entry['size']}"
        devices = f"{entry['nodes']} × {entry['devices_per_node']} {entry['device']}"
        sign = "" if entry["estimate_is_measured"] else "≤ "
        time = f"{sign}{format_seconds(entry['estimate_s'])}" if entry["estimate_s"] is not None else ABSENT
        if entry["skip"] or entry["done"]:
            time = "skipped" if entry["skip"] else "done"
        values = (
            entry["cell_id"][:6],
            what,
            devices,
            entry["batch_size_per_device"],
            _as_typed(entry["data"]),
            entry["repeat"],
            time,
        )
        rows.append([plain(value) for value in values])
        if entry["skip"]:
            skipped.setdefault(entry["skip"], []).append(entry["cell_id"][:6])
    console = stdout_console()
    print_rows(headings, rows, console, is_right=[heading in ("batch", "repeat") for heading in headings])
    for reason, cells in skipped.items():
        console.print(Text(f"skipped {', '.join(dict.fromkeys(cells))}: {reason}"))
