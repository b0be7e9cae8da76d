"""Runs one after the other: a folder, processes, records, a row of the store. The same for workloads and commands."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.output import exit_code_of, print_json, stdout_console, talk
from trainmark.cli.results import open_store, print_results, refuse_file, say_next
from trainmark.controller.launching import print_commands
from trainmark.controller.scaling import asked_cells
from trainmark.controller.sweep import SweepRequest, SweepRuns, end_all, open_sweep
from trainmark.errors import InputError, RunError, StoreError
from trainmark.launch.job import Command, Job, Prints
from trainmark.launch.registry import launchers
from trainmark.messages.endings import interrupted_at_start
from trainmark.messages.message import Message
from trainmark.plan.identity import cell_id, new_run_id
from trainmark.plan.sweep import content_id
from trainmark.runfolder.ending import write_exit
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, SCHEMA, read_end
from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell
from trainmark.units import format_count

if TYPE_CHECKING:
    import argparse

    from trainmark.analyse.scaling import Asked
    from trainmark.cli.progress import Progress
    from trainmark.launch.endings import Ending
    from trainmark.launch.kubernetes import PodJob
    from trainmark.launch.supervise import Observer, Source
    from trainmark.launch.warden import Warden
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run to be made."""

    cell: Cell | CommandCell
    facts: dict[str, Any]
    """For run.json, beside the cell."""
    launcher: str
    timeout_s: float | None
    job: Callable[[str, Path], Job]
    """From the run's id and folder."""
    watch: Callable[[Progress], Observer]
    source: Callable[[Path], Source] | None = None
    """Where records come from, by folder; None: from our worker."""


def execute(
    tasks: Sequence[Task],
    args: argparse.Namespace,
    *,
    settings: Mapping[str, Any],
    skipped: Mapping[Cell, Message] | None = None,
) -> int:
    """`settings` hold for all runs and tell one sweep from another; `skipped` is what cannot run here."""
    prints = launchers().load(args.launcher).prints
    if prints is Prints.COMMANDS:
        return _print_dry(tasks, Path(args.store), is_json=args.json)
    if prints is Prints.MANIFESTS:
        return _print_manifests(tasks, is_json=args.json)
    store = open_store(Path(args.store))
    store.check_writable()
    cells = [task.cell for task in tasks]
    content = content_of(tasks, settings)
    request = SweepRequest(content=content, cells=cells, skipped=skipped or {}, settings=dict(settings))
    with open_sweep(request, store, fresh=args.fresh, resumes=args.resume) as (held, sweep):
        interrupt = _run_all(tasks, store, sweep, retries=args.retries, asked=shlex.join(["trainmark", *args.words]))
        if interrupt is None:
            held.finish()
        rows, num_done = sweep.results(cells), sum(sweep.answer(cell) is not None for cell in cells)
    _print_results(rows, asked_cells(cells, request.skipped), is_json=args.json)
    if interrupt is not None:
        kept = f"what was measured is kept in {store.root}, and the same command goes on from there"
        talk(f"interrupted with {num_done} of {format_count(len(tasks), 'runs')} done; {kept}")
        return exit_code_of(interrupt)
    say_next(rows, store, given=args.store)
    return 0 if all(row.outcome == "ok" for row in rows) else 1


def _searched(task: Task) -> tuple[str, ...]:
    """What a search for the largest batch leaves behind: its tries, and the memory that was free then."""
    return ("find_batch", "memory_limit_bytes") if "find_batch" in task.facts else ()


def content_of(tasks: Sequence[Task], settings: Mapping[str, Any]) -> str:
    """All that the runs are told; where a training goes on is no other question."""
    asked = [
        {
            "cell": task.cell.to_json(),
            "facts": {name: value for name, value in task.facts.items() if name not in _searched(task)},
            "launcher": task.launcher,
            "cluster": asdict(task.job("RUN", Path()).cluster),
            "timeout_s": task.timeout_s,
        }
        for task in tasks
    ]
    return content_id(asked, settings)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where runs go and who looks after them."""

    store: Store
    progress: Progress
    warden: Warden
    asked: str | None = None


def run_probe(task: Task, store: Store) -> RunRow:
    """One run beside the measurements: its row is given back and shown nowhere."""
    from trainmark.cli.progress import Progress
    from trainmark.launch.warden import Warden

    with Progress(total=1) as progress, Warden() as warden:
        row, _ = _run_one(task, _Place(store=store, progress=progress, warden=warden), 1, {})
    end_all([row.id])
    return row


def _run_all(
    tasks: Sequence[Task], store: Store, sweep: SweepRuns, *, retries: int, asked: str
) -> KeyboardInterrupt | None:
    """All that are not done yet. Ctrl-C and SIGTERM end the run in order and are returned."""
    from trainmark.cli.progress import Progress
    from trainmark.launch.warden import Warden

    with Progress(total=len(tasks)) as progress, Warden() as warden:
        place = _Place(store=store, progress=progress, warden=warden, asked=asked)
        try:
            for number, task in enumerate(tasks, start=1):
                if sweep.answer(task.cell) is None:
                    _run_task(task, place, sweep, number, retries=retries)
        except KeyboardInterrupt as interrupt:
            _mark_interrupted(store, sweep, progress.run_id, interrupt)
            return interrupt
    return None


def _run_task(task: Task, place: _Place, sweep: SweepRuns, number: int, *, retries: int) -> None:
    """Once, and again where that can help; each attempt is a run of its own."""
    from trainmark.launch.endings import LAST_BYTES, why_retry

    for num_left in range(retries, -1, -1):
        row, ending = _run_one(task, place, number, sweep.facts(task.cell))
        sweep.add(row)
        end_all([row.id])
        output = place.store.root / row.id / OUTPUT_FILE
        cause = why_retry(ending, read_end(output, LAST_BYTES)) if num_left else None
        if cause is None:
            return
        talk(f"{task.cell.title}: tried again, since {cause}")


def _run_one(task: Task, place: _Place, number: int, facts: Mapping[str, Any]) -> tuple[RunRow, Ending]:
    store, progress, run_id = place.store, place.progress, new_run_id(task.cell)
    folder = _make_folder(task, store, run_id, {"asked": place.asked, **facts})
    progress.begin(run_id, task.cell.title, number)
    commands = launchers().load(task.launcher).commands(task.job(run_id, folder))
    place.warden.watch(run_id, commands)
    try:
        ending = _supervise(task, run_id, folder, commands, progress)
    except OSError as error:
        why = error.strerror or str(error)
        hint = f"is the disk of {store.root} full? finished runs are kept; give --store DIR for another one"
        raise RunError(f"the run {run_id} could not be carried out", why=why, hint=hint) from error
    progress.end(ending.outcome, ending.reason.english)
    row = _index(store, folder)
    assert row is not None
    return row, ending


def _index(store: Store, folder: Path) -> RunRow | None:
    """A sweep of days does not end for the sake of the index: the folders are the truth, and `show` reads them anew."""
    try:
        return store.index(folder)
    except StoreError as error:
        talk(f"{error.what} ({error.why}); the run is kept in {folder}, and the next `trainmark show` reads it")
        return store.read(folder)


def _mark_interrupted(store: Store, sweep: SweepRuns, run_id: str, interrupt: KeyboardInterrupt) -> None:
    """The run that was going on keeps what it has, and says so however early it was caught."""
    folder = store.root / run_id
    if not run_id or not folder.is_dir():
        return
    end_all([run_id])
    if not (folder / EXIT_FILE).exists():
        reason = interrupted_at_start(signal=str(interrupt) or "Ctrl-C").to_reason()
        write_exit(folder, {"outcome": Outcome.KILLED, **reason, "look_at": OUTPUT_FILE})
    row = _index(store, folder)
    if row is not None:
        sweep.add(row)


def _supervise(task: Task, run_id: str, folder: Path, commands: Sequence[Command], progress: Progress) -> Ending:
    from trainmark.launch.supervise import supervise

    return supervise(
        folder,
        run_id,
        commands,
        launcher=task.launcher,
        timeout_s=task.timeout_s,
        observe=task.watch(progress),
        source=task.source(folder) if task.source else None,
    )


def _make_folder(task: Task, store: Store, run_id: str, facts: Mapping[str, Any]) -> Path:
    document = {
        "schema": SCHEMA,
        "cell": task.cell.to_json(),
        "cell_id": cell_id(task.cell),
        **task.facts,
        **facts,
        "created_unix_s": time.time(),
    }
    try:
        return store.new_folder(run_id, document)
    except OSError as error:
        why = error.strerror or str(error)
        hint = "free some space or give another --store DIR; finished runs are kept"
        raise StoreError(f"the run folder in {store.root} could not be written", why=why, hint=hint) from error


def _print_dry(tasks: Sequence[Task], store: Path, *, is_json: bool) -> int:
    refuse_file(store)
    jobs = [(task.launcher, task.job("RUN", store / "RUN")) for task in tasks]
    commands = [command for name, job in jobs for command in launchers().load(name).commands(job)]
    return print_commands(commands, is_json=is_json)


def _print_manifests(tasks: Sequence[Task], *, is_json: bool) -> int:
    from trainmark.launch.kubernetes import render, to_text

    manifests = [render(_pod_job(task)) for task in tasks]
    if is_json:
        print_json(manifests=manifests)
        talk("nothing was started")
        return 0
    print(to_text(manifests), end="")
    talk("nothing was started: pipe this into kubectl apply -f -")
    return 0


def _pod_job(task: Task) -> PodJob:
    from trainmark.launch.kubernetes import PodJob

    cell = task.cell
    if isinstance(cell, CommandCell):
        raise InputError("a command has no manifest", hint="--launcher kubernetes goes with a workload or a suite")
    cluster = task.job("RUN", Path()).cluster
    document = {"schema": SCHEMA, "cell": cell.to_json(), "cell_id": cell_id(cell), **task.facts}
    return PodJob(
        run_id=new_run_id(cell),
        run=document,
        framework=cell.framework,
        device=cell.device,
        num_nodes=cell.nodes,
        processes_per_node=cell.devices_per_node,
        timeout_s=task.timeout_s,
        image=cluster.image,
        store_claim=cluster.volume,
        data_claim=cluster.data_volume,
        data_path=cell.data.path,
        namespace=cluster.namespace,
        job_kind=cluster.job_kind,
        environment=cluster.variables,
        resources=cluster.resources,
    )


def _print_results(rows: list[RunRow], asked: Sequence[Asked], *, is_json: bool) -> None:
    from trainmark.analyse.scaling import build_studies
    from trainmark.analyse.table import build_lines
    from trainmark.report.console import print_lines
    from trainmark.report.scaling import describe_studies, print_studies

    lines = build_lines(rows)
    studies = build_studies(lines, asked)
    if is_json:
        print_results(rows, scaling=describe_studies(studies))
        return
    console = stdout_console()
    print_lines(lines, console)
    print_studies(studies, console)
