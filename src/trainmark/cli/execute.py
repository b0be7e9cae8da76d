"""Runs one after the other: a folder, processes, records, a row of the store. The same for workloads and commands."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark import records
from trainmark.cli.output import next_command, print_json, stdout_console, talk
from trainmark.errors import RunError, StoreError
from trainmark.launch.job import Job
from trainmark.launch.registry import LAUNCHERS
from trainmark.plan.identity import cell_id, new_run_id
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell

if TYPE_CHECKING:
    import argparse

    from trainmark.cli.progress import Progress
    from trainmark.launch.outcome import Ending
    from trainmark.launch.supervise import Observer, Source
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run to be made."""

    cell: Cell | CommandCell
    facts: dict[str, Any]
    """For run.json, beside the cell."""
    launcher: str
    timeout_s: float
    job: Callable[[str, Path], Job]
    """From the run's id and folder."""
    watch: Callable[[Progress], Observer]
    source: Callable[[Path], Source] | None = None
    """Where records come from, by folder; None: from our worker."""
    finish: Callable[[Path], None] = lambda _: None
    """Adds to the folder what is known only at the end."""


def execute(tasks: Sequence[Task], args: argparse.Namespace) -> int:
    if args.launcher == "dry":
        return _print_commands(tasks, Path(args.store))
    from trainmark.store.index import Store

    store = Store(Path(args.store))
    store.check_writable()
    rows, was_interrupted = _run_all(tasks, store)
    _print_results(rows, is_json=args.json)
    if was_interrupted:
        talk(f"interrupted after {len(rows)} of {len(tasks)} runs; what was measured is kept in {store.root}")
        return 130
    next_command("trainmark report", store=args.store)
    return 0 if all(row.outcome == "ok" for row in rows) else 1


def run_probe(task: Task, store: Store) -> RunRow:
    """One run beside the measurements: its row is given back and shown nowhere."""
    from trainmark.cli.progress import Progress

    with Progress(total=1) as progress:
        return _run_one(task, store, progress, 1)


def _run_all(tasks: Sequence[Task], store: Store) -> tuple[list[RunRow], bool]:
    from trainmark.cli.progress import Progress

    rows: list[RunRow] = []
    with Progress(total=len(tasks)) as progress:
        for number, task in enumerate(tasks, start=1):
            try:
                row = _run_one(task, store, progress, number)
            except KeyboardInterrupt:
                store.sync()
                started = [row for row in store.rows() if row.id == progress.run_id]
                return rows + started, True
            rows.append(row)
    return rows, False


def _run_one(task: Task, store: Store, progress: Progress, number: int) -> RunRow:
    run_id = new_run_id(task.cell)
    folder = _make_folder(task, store, run_id)
    progress.begin(run_id, task.cell.title, number)
    try:
        ending = _supervise(task, run_id, folder, progress)
    except OSError as error:
        why = error.strerror or str(error)
        hint = f"is the disk of {store.root} full? finished runs are kept; give --store DIR for another one"
        raise RunError(f"the run {run_id} could not be carried out", why=why, hint=hint) from error
    progress.end(ending.outcome, ending.reason)
    row = store.index(folder)
    assert row is not None
    return row


def _supervise(task: Task, run_id: str, folder: Path, progress: Progress) -> Ending:
    from trainmark.launch.supervise import supervise

    try:
        return supervise(
            folder,
            run_id,
            LAUNCHERS[task.launcher](task.job(run_id, folder)),
            launcher=task.launcher,
            timeout_s=task.timeout_s,
            observe=task.watch(progress),
            source=task.source(folder) if task.source else None,
        )
    finally:
        task.finish(folder)


def _make_folder(task: Task, store: Store, run_id: str) -> Path:
    document = {
        "schema": records.SCHEMA,
        "cell": task.cell.to_json(),
        "cell_id": cell_id(task.cell),
        **task.facts,
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


def _print_commands(tasks: Sequence[Task], store: Path) -> int:
    for task in tasks:
        command = LAUNCHERS[task.launcher](task.job("RUN", store / "RUN"))
        settings = " ".join(f"{key}={shlex.quote(value)}" for key, value in command.environment.items())
        print(f"{settings} {shlex.join(command.argv)}")
    talk("dry: nothing was started")
    return 0


def _print_results(rows: list[RunRow], *, is_json: bool) -> None:
    if is_json:
        from trainmark.analyse.results import describe_runs

        print_json(results=describe_runs(rows))
        return
    from trainmark.analyse.table import build_lines
    from trainmark.report.console import print_lines

    print_lines(build_lines(rows), stdout_console())
