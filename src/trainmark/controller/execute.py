"""Makes runs one after the other: a folder, processes, records, a row in the store; for workloads and commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.analyse.analysis import estimate_run
from trainmark.controller.end_of_run import describe_end
from trainmark.controller.listener import Listener, RunEnd
from trainmark.controller.outlook import Outlook, read_past
from trainmark.controller.results import asked_cells
from trainmark.controller.sweep import SweepRequest, SweepRuns, end_all, open_sweep
from trainmark.errors import RunError, StoreError
from trainmark.launch.job import Job
from trainmark.launch.registry import launchers
from trainmark.messages.endings import interrupted_at_start
from trainmark.messages.message import Message
from trainmark.plan.estimate import Duration, PastRun
from trainmark.plan.identity import new_run_id
from trainmark.plan.sweep import content_id
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.ending import write_exit
from trainmark.runfolder.files import EXIT_FILE, OUTPUT_FILE, Json, read_end
from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell

if TYPE_CHECKING:
    from trainmark.analyse.scaling import Asked
    from trainmark.launch.endings import Ending
    from trainmark.launch.supervise import Observer, Source
    from trainmark.launch.warden import Warden
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run to be made."""

    cell: Cell | CommandCell
    document: RunDocument
    """run.json, but for what belongs to one attempt."""
    launcher: str
    timeout_s: float | None
    job: Callable[[str, Path], Job]
    """From the run's id and folder."""
    watch: Callable[[Listener], Observer]
    source: Callable[[Path], Source] | None = None
    """Where records come from, by folder; None: from our worker."""
    duration: Callable[[Sequence[PastRun]], Duration | None] = lambda _: None
    """How long it will take, by what earlier runs took; None: nobody knows."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """All runs that one command asks for."""

    tasks: Sequence[Task]
    settings: Mapping[str, Any]
    """What holds for all runs and tells one sweep from another: machine, versions, files."""
    skipped: Mapping[Cell, Message] = field(default_factory=dict)
    """Cells that cannot run here, each with the reason."""

    @property
    def content(self) -> str:
        """Identity of the sweep: everything that the runs are told. Where a training resumes is not part of it."""
        asked = [
            {
                "cell": task.cell.to_json(),
                "facts": _identifying_facts(task.document),
                "launcher": task.launcher,
                "cluster": asdict(task.job("RUN", Path()).cluster),
                "timeout_s": task.timeout_s,
            }
            for task in self.tasks
        ]
        return content_id(asked, self.settings)


def _identifying_facts(document: RunDocument) -> Json:
    """Without the trace of a batch search: its tries, and the memory that was free then, differ from day to day."""
    if document.find_batch is not None:
        document = replace(document, find_batch=None, memory_limit_bytes=None)
    facts = {name: value for name, value in document.to_json().items() if name not in ("schema", "cell", "cell_id")}
    if document.workload_version == 1:  # which the first versions did not write
        del facts["workload_version"]
    # The first versions wrote the dialect of a command before it was known: their sweeps keep their identity.
    return {**facts, "dialect": None} if document.source == "command" else facts


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    command_line: str
    """As the user typed it, for run.json."""
    retries: int = 1
    """How often a run is repeated that hung, was killed or lost a connection."""
    fresh: bool = False
    """Start a new sweep even if the same one was left unfinished."""
    resume: bool = False
    """Let trainings that failed or timed out continue from their checkpoints too."""


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    rows: list[RunRow]
    """The last attempt of each run that was started."""
    asked: tuple[Asked, ...]
    num_runs: int
    num_done: int
    interrupt: KeyboardInterrupt | None
    """Ctrl-C or a signal that ended the sweep early."""


def run_sweep(request: RunRequest, store: Store, options: SweepOptions, listener: Listener) -> SweepResult:
    """Makes all runs of a request, or those that an interrupted sweep of the same content has left to do."""
    store.check_writable()
    cells = [task.cell for task in request.tasks]
    wanted = SweepRequest(
        content=request.content, cells=cells, skipped=request.skipped, settings=dict(request.settings)
    )
    with open_sweep(wanted, store, listener, fresh=options.fresh, resumes=options.resume) as (held, sweep):
        interrupt = _run_all(request.tasks, store, sweep, options, listener)
        if interrupt is None:
            held.finish()
        return SweepResult(
            rows=sweep.results(cells),
            asked=asked_cells(cells, request.skipped),
            num_runs=len(cells),
            num_done=sum(sweep.answer(cell) is not None for cell in cells),
            interrupt=interrupt,
        )


def run_probe(task: Task, store: Store, listener: Listener) -> RunRow:
    """One run outside of any sweep; its row is returned and shown nowhere."""
    from trainmark.launch.warden import Warden

    with Warden() as warden:
        runner = _Runner(store, warden, listener, total=1)
        row, _ = runner.run(task, 1, left=None)
    end_all([row.id])
    return row


def _run_all(
    tasks: Sequence[Task], store: Store, sweep: SweepRuns, options: SweepOptions, listener: Listener
) -> KeyboardInterrupt | None:
    """Makes the runs that are not done yet. Returns the interrupt if Ctrl-C or SIGTERM ended the sweep."""
    from trainmark.launch.warden import Warden

    with Warden() as warden:
        runner = _Runner(store, warden, listener, total=len(tasks), command_line=options.command_line)
        outlook = Outlook(read_past(store))
        try:
            for number, task in enumerate(tasks, start=1):
                if sweep.answer(task.cell) is None:
                    left = outlook.left(task for task in tasks[number - 1 :] if sweep.answer(task.cell) is None)
                    outlook.add(_run_with_retries(task, runner, sweep, number, left=left, retries=options.retries))
        except KeyboardInterrupt as interrupt:
            _mark_interrupted(store, sweep, runner.run_id, interrupt, listener)
            return interrupt
    return None


def _run_with_retries(
    task: Task, runner: _Runner, sweep: SweepRuns, number: int, *, left: Duration | None, retries: int
) -> RunRow:
    """Each attempt is a run of its own; returns the last."""
    from trainmark.launch.endings import LAST_BYTES, why_retry

    for num_tries in range(retries, -1, -1):
        attempt = sweep.next_attempt(task.cell, task.document, runner.listener)
        row, ending = runner.run(replace(task, document=attempt), number, left=left)
        sweep.add(row)
        end_all([row.id])
        output = runner.store.root / row.id / OUTPUT_FILE
        cause = why_retry(ending, read_end(output, LAST_BYTES)) if num_tries else None
        if cause is None:
            break
        runner.listener.say(f"{task.cell.title}: retrying: {cause}")
    return row


class _Runner:
    """Makes single runs in one store and remembers which one is current."""

    def __init__(
        self, store: Store, warden: Warden, listener: Listener, *, total: int, command_line: str | None = None
    ) -> None:
        self.store, self.listener, self.run_id = store, listener, ""
        self._warden, self._total, self._command_line = warden, total, command_line

    def run(self, task: Task, number: int, *, left: Duration | None) -> tuple[RunRow, Ending]:
        self.run_id = run_id = new_run_id(task.cell)
        document = replace(task.document, asked=self._command_line, created_unix_s=time.time())
        folder = _make_folder(self.store, run_id, document)
        self.listener.begin_run(task.cell.title, number=number, total=self._total, left=left)
        try:
            ending = self._supervise(task, run_id, folder)
        except OSError as error:
            why = error.strerror or str(error)
            hint = f"is the disk of {self.store.root} full? finished runs are kept; use --store DIR for another disk"
            raise RunError(f"run {run_id} failed to start or to be watched", why=why, hint=hint) from error
        row = _index(self.store, folder, self.listener)
        assert row is not None
        reason = describe_end(ending.reason, row, _target_ci(document)).english
        self.listener.end_run(
            RunEnd(outcome=ending.outcome, reason=reason, estimate=estimate_run(row), unit=row.unit, run_id=run_id)
        )
        return row, ending

    def _supervise(self, task: Task, run_id: str, folder: Path) -> Ending:
        from trainmark.launch.supervise import supervise

        commands = launchers().load(task.launcher).commands(task.job(run_id, folder))
        self._warden.watch(run_id, commands)
        return supervise(
            folder,
            run_id,
            commands,
            launcher=task.launcher,
            timeout_s=task.timeout_s,
            observe=task.watch(self.listener),
            source=task.source(folder) if task.source else None,
        )


def _target_ci(document: RunDocument) -> float | None:
    """None for a training, which ends by itself, and for a command."""
    return document.measure.target_ci if document.measure is not None and document.cell.epochs is None else None


def _index(store: Store, folder: Path, listener: Listener) -> RunRow | None:
    """An index that cannot be written does not end a sweep: the folders are the truth, and `show` reads them again."""
    try:
        return store.index(folder)
    except StoreError as error:
        listener.say(f"{error.what} ({error.why}); the run is kept in {folder}, and `trainmark show` will index it")
        return store.read(folder)


def _mark_interrupted(
    store: Store, sweep: SweepRuns, run_id: str, interrupt: KeyboardInterrupt, listener: Listener
) -> None:
    """The current run keeps what it has and gets an exit.json, however early it was interrupted."""
    folder = store.root / run_id
    if not run_id or not folder.is_dir():
        return
    end_all([run_id])
    if not (folder / EXIT_FILE).exists():
        reason = interrupted_at_start(signal=str(interrupt) or "Ctrl-C").to_reason()
        write_exit(folder, {"outcome": Outcome.KILLED, **reason, "look_at": OUTPUT_FILE})
    row = _index(store, folder, listener)
    if row is not None:
        sweep.add(row)


def _make_folder(store: Store, run_id: str, document: RunDocument) -> Path:
    try:
        return store.new_folder(run_id, document.to_json())
    except OSError as error:
        why = error.strerror or str(error)
        hint = "free some space or use another --store DIR; finished runs are kept"
        raise StoreError(f"cannot write the run folder in {store.root}", why=why, hint=hint) from error
