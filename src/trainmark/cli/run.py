"""`trainmark run`: the data flow from spec to result, once for each cell."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark import records
from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.cli.specify import Plan, add_spec_arguments, make_plan
from trainmark.errors import DataError, InputError, RunError, StoreError
from trainmark.launch.job import Command, Job
from trainmark.launch.registry import CHOICES, LAUNCHERS, choose
from trainmark.plan.identity import cell_id, new_run_id
from trainmark.spec.cell import Cell
from trainmark.workloads.registry import load_card

if TYPE_CHECKING:
    from trainmark.cli.progress import Progress
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow

NAME = "run"
SUMMARY = "measure: a workload, a shipped suite or a suite file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec_arguments(parser)
    parser.add_argument(
        "--launcher", choices=CHOICES, default="auto", help="how processes start; dry prints the command"
    )


def run(args: argparse.Namespace) -> int:
    plan = make_plan(args)
    cells = _runnable(plan)
    for cell in cells:
        choose(args.launcher, num_processes=cell.devices_per_node)
    if args.launcher == "dry":
        return _print_commands(cells, plan, Path(args.store))
    from trainmark.store.index import Store

    store = Store(Path(args.store))
    store.check_writable()
    rows, was_interrupted = _run_all(cells, plan, store, args.launcher)
    _print_results(rows, args)
    if was_interrupted:
        talk(f"interrupted after {len(rows)} of {len(cells)} runs; what was measured is kept in {store.root}")
        return 130
    next_command("trainmark report", store=args.store)
    return 0 if all(row.outcome == "ok" for row in rows) else 1


def _runnable(plan: Plan) -> list[Cell]:
    """What can run here; an error if nothing can, so that a sweep that does nothing never looks like a success."""
    for reason in dict.fromkeys(plan.skipped.values()):
        num = sum(other == reason for other in plan.skipped.values())
        talk(f"skipping {num} of {len(plan.cells)} runs: {reason}")
    cells = [cell for cell in plan.cells if cell not in plan.skipped]
    if not cells:
        reason = next(iter(plan.skipped.values()))
        what, _, hint = reason.partition("; ")
        raise InputError("nothing can run on this machine", why=what, hint=hint)
    for data in dict.fromkeys((cell.workload, cell.data.path, cell.global_batch_size) for cell in cells):
        _check_data(*data)
    return cells


def _check_data(workload: str, path: str | None, global_batch_size: int) -> None:
    """Before the first process starts: a data set that cannot be used is found now."""
    if path is None:
        return
    from trainmark.datasets.formats import find_format

    card = load_card(workload)
    num_samples = find_format(card.dataset).summarise(Path(path)).num_train
    if num_samples < global_batch_size:
        why = f"{num_samples} training {card.unit}, a global batch of {global_batch_size}"
        hint = f"use a smaller --batch-size or more {card.unit}"
        raise DataError(f"{path} is smaller than one batch", why=why, hint=hint)


def _run_all(cells: list[Cell], plan: Plan, store: Store, launcher: str) -> tuple[list[RunRow], bool]:
    from trainmark.cli.progress import Progress

    rows: list[RunRow] = []
    with Progress(total=len(cells)) as progress:
        for number, cell in enumerate(cells, start=1):
            try:
                row = _run_one(cell, plan, store, launcher, progress, number)
            except KeyboardInterrupt:
                store.sync()
                started = [row for row in store.rows() if row.id == progress.run_id]
                return rows + started, True
            rows.append(row)
    return rows, False


def _run_one(cell: Cell, plan: Plan, store: Store, launcher: str, progress: Progress, number: int) -> RunRow:
    from trainmark.launch.supervise import supervise

    run_id = new_run_id(cell)
    card = load_card(cell.workload)
    measure = plan.suite.measure
    folder = _make_folder(cell, plan, store, run_id)
    observer = progress.begin(run_id, cell, measure, card.unit, number)
    name = choose(launcher, num_processes=cell.devices_per_node)
    command = LAUNCHERS[name](_job(cell, plan, run_id, folder))
    try:
        ending = supervise(folder, run_id, command, launcher=name, timeout_s=measure.timeout_s, observe=observer)
    except OSError as error:
        why = error.strerror or str(error)
        hint = f"is the disk of {store.root} full? finished runs are kept; give --store DIR for another one"
        raise RunError(f"the run {run_id} could not be carried out", why=why, hint=hint) from error
    progress.end(ending.outcome, ending.reason)
    row = store.index(folder)
    assert row is not None
    return row


def _make_folder(cell: Cell, plan: Plan, store: Store, run_id: str) -> Path:
    card = load_card(cell.workload)
    document = {
        "schema": records.SCHEMA,
        "cell": cell.to_json(),
        "cell_id": cell_id(cell),
        "suite": plan.suite.name,
        "measure": asdict(plan.suite.measure),
        "unit": card.unit,
        "model": card.title,
        "created_unix_s": time.time(),
    }
    try:
        folder = store.new_folder(run_id)
        records.write_json(folder / records.RUN_FILE, document)
    except OSError as error:
        why = error.strerror or str(error)
        hint = "free some space or give another --store DIR; finished runs are kept"
        raise StoreError(f"the run folder in {store.root} could not be written", why=why, hint=hint) from error
    return folder


def _job(cell: Cell, plan: Plan, run_id: str, folder: Path) -> Job:
    return Job(
        run_id=run_id,
        folder=folder.resolve(),
        python=sys.executable,
        num_processes=cell.devices_per_node,
        num_cores=plan.machine.num_cores if cell.device == "cpu" else 0,
    )


def _print_commands(cells: list[Cell], plan: Plan, store: Path) -> int:
    for cell in cells:
        name = choose("dry", num_processes=cell.devices_per_node)
        command: Command = LAUNCHERS[name](_job(cell, plan, "RUN", store / "RUN"))
        settings = " ".join(f"{key}={shlex.quote(value)}" for key, value in command.environment.items())
        print(f"{settings} {shlex.join(command.argv)}")
    talk("dry: nothing was started")
    return 0


def _print_results(rows: list[RunRow], args: argparse.Namespace) -> None:
    if args.json:
        from trainmark.analyse.result import describe_run

        print_json(results=[describe_run(row) for row in rows])
        return
    from trainmark.analyse.table import build_lines
    from trainmark.report.console import print_lines

    print_lines(build_lines(rows), stdout_console())
