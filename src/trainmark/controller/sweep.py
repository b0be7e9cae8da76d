"""The sweep that `run` works on: a new one, or an interrupted one together with the runs it has already done."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainmark.controller.code_under_test import describe_changes
from trainmark.controller.listener import Listener
from trainmark.errors import RunError
from trainmark.messages.message import Message
from trainmark.plan.identity import cell_id
from trainmark.plan.sweep import SETTLED, RunKey, key_of
from trainmark.runfolder.document import RunDocument
from trainmark.runfolder.files import Json, find_checkpoint
from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell
from trainmark.store.sweeps import Sweeps
from trainmark.units import format_count
from trainmark.worker.environment import own_git

if TYPE_CHECKING:
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow
    from trainmark.store.sweeps import HeldSweep, SweepRecord


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """The runs that one command asks for, and what identifies them."""

    content: str
    """Identity of the sweep: see `plan.sweep.content_id`."""
    cells: Sequence[Cell | CommandCell]
    skipped: Mapping[Cell, Message] = field(default_factory=dict)
    settings: Json = field(default_factory=dict)


class SweepRuns:
    """The attempts of a sweep, grouped by planned run."""

    def __init__(self, record: SweepRecord, store: Store, *, resumes: bool = False) -> None:
        self.record = record
        self._store, self._resumes = store, resumes
        self._attempts: dict[RunKey, list[RunRow]] = {}

    def add(self, row: RunRow) -> None:
        key = (row.cell_id, row.repeat or 0)
        others = [other for other in self._attempts.get(key, ()) if other.id != row.id]
        self._attempts[key] = sorted([*others, row], key=lambda each: each.attempt or 0)

    def answer(self, cell: Cell | CommandCell) -> RunRow | None:
        """The last attempt, if it answers what was asked; None if the run is still to be made."""
        attempts = self._attempts.get(key_of(cell))
        return attempts[-1] if attempts and self._is_settled(attempts[-1]) else None

    def results(self, cells: Sequence[Cell | CommandCell]) -> list[RunRow]:
        """The last attempt of each run that was started."""
        return [attempts[-1] for cell in cells if (attempts := self._attempts.get(key_of(cell)))]

    def next_attempt(self, cell: Cell | CommandCell, document: RunDocument, listener: Listener) -> RunDocument:
        """With its place in the sweep, and the run whose checkpoint a training resumes."""
        earlier = self._attempts.get(key_of(cell), [])
        is_training = isinstance(cell, Cell) and cell.is_training
        return replace(
            document,
            sweep=self.record.id,
            attempt=len(earlier) + 1,
            retry_of=earlier[-1].id if earlier else None,
            resumed_from=self._find_checkpoint(cell, earlier, listener) if is_training else None,
        )

    def read_done(self) -> None:
        """Reads what earlier controllers left; unfinished runs again, since the index may be older than their end."""
        self._store.sync()
        for row in self._store.rows(sweep=self.record.id):
            folder = self._store.root / row.id
            current = row if row.outcome in SETTLED else self._store.index(folder)
            if current is not None and folder.is_dir():
                self.add(current)

    def cut_short(self) -> list[str]:
        return [row.id for rows in self._attempts.values() for row in rows if row.outcome not in SETTLED]

    def _is_settled(self, row: RunRow) -> bool:
        """With --resume, a training that failed or timed out is continued if it left a checkpoint."""
        can_resume = self._resumes and row.outcome != Outcome.OK and self._has_checkpoint(row.id)
        return row.outcome in SETTLED and not can_resume

    def _find_checkpoint(self, cell: Cell | CommandCell, earlier: Sequence[RunRow], listener: Listener) -> str | None:
        own = [row.id for row in earlier if self._has_checkpoint(row.id)]
        if not own and not self._resumes:
            return None
        found = own or [run_id for run_id in self._cut_short(cell) if self._has_checkpoint(run_id)]
        if not found:
            listener.say(f"{cell.title}: no checkpoint found in {self._store.root}; starting from the beginning")
            return None
        newest = own[-1] if own else max(found)  # by attempt, if it is known: the clock may have been set back
        listener.say(f"{cell.title}: resuming from {newest}{self._say_other_code(newest)}")
        return newest

    def _say_other_code(self, run_id: str) -> str:
        """A checkpoint may be older than the code that goes on with it: the user must know, and may want that."""
        (row,) = self._store.rows(wanted=lambda other: other == run_id) or (None,)
        before = row.environment.get("git") if row is not None else None
        facts = [{name: git.get(name) for name in ("commit", "diff_sha256")} if isinstance(git, dict) else {}
                 for git in (before, own_git())]  # fmt: skip
        changes = describe_changes(*facts)
        return f", which was trained by other code ({', '.join(changes)})" if changes else ""

    def _cut_short(self, cell: Cell | CommandCell) -> list[str]:
        self._store.sync()
        same = self._store.rows(cell_id=cell_id(cell), repeat=cell.repeat)
        return [row.id for row in same if row.outcome not in (None, Outcome.OK)]

    def _has_checkpoint(self, run_id: str) -> bool:
        return find_checkpoint(self._store.root / run_id) is not None


@contextlib.contextmanager
def open_sweep(
    asked: SweepRequest, store: Store, listener: Listener, *, fresh: bool, resumes: bool
) -> Iterator[tuple[HeldSweep, SweepRuns]]:
    """Continues the newest unfinished sweep of the same content that no living process works on, or starts one."""
    sweeps = Sweeps(store.root)
    if fresh:
        sweeps.abandon(asked.content)
    unfinished = sweeps.take_up(asked.content)
    if unfinished is None and not fresh:
        _say_what_changed(sweeps, asked, listener)
    held = unfinished or _begin(sweeps, asked)
    try:
        sweep = SweepRuns(held.record, store, resumes=resumes)
        if unfinished is not None:
            sweep.read_done()
            end_all(sweep.cut_short())
            _say_what_is_done(sweep, asked, listener)
        yield held, sweep
    finally:
        held.release()


def _say_what_changed(sweeps: Sweeps, asked: SweepRequest, listener: Listener) -> None:
    """A sweep of half old and half new code would be neither, so the same command starts a new one; it must say so."""
    found = sweeps.find_changed(asked.content, planned=_planned(asked))
    if found is not None:
        record, before = found
        changes = describe_changes(before, asked.settings)
        why = f" ({', '.join(changes)})" if changes else ""
        listener.say(f"not continuing the sweep of {record.started}: code or machine changed{why}; starting a new one")


def _planned(asked: SweepRequest) -> list[Json]:
    return [_describe(cell) for cell in asked.cells]


def _begin(sweeps: Sweeps, asked: SweepRequest) -> HeldSweep:
    planned = _planned(asked)
    skipped = [{**_describe(cell), **reason.to_reason()} for cell, reason in asked.skipped.items()]
    return sweeps.begin(asked.content, planned=planned, skipped=skipped, settings=asked.settings)


def find_unfinished(content: str, store: Store) -> SweepRuns | None:
    """The sweep that `run` would continue; changes nothing."""
    record = Sweeps(store.root).find(content)
    if record is None:
        return None
    sweep = SweepRuns(record, store)
    sweep.read_done()
    return sweep


def end_all(run_ids: Sequence[str]) -> None:
    """Kills what runs left behind, or refuses to go on: it would take memory, ports and time from the next run."""
    from trainmark.launch.processes import kill_left

    left = kill_left(run_ids) if run_ids else []
    if left:
        pids = ", ".join(str(pid) for pid in left)
        why = f"{format_count(len(left), 'processes')} could not be killed: {pids}"
        hint = "end them (a reboot may be needed) and run the same command again; finished runs are kept"
        raise RunError(f"run {run_ids[-1]} left processes behind", why=why, hint=hint)


def _describe(cell: Cell | CommandCell) -> Json:
    return {"cell_id": cell_id(cell), "repeat": cell.repeat, "title": cell.title, "cell": cell.to_json()}


def _say_what_is_done(sweep: SweepRuns, asked: SweepRequest, listener: Listener) -> None:
    answers = [row for cell in asked.cells if (row := sweep.answer(cell)) is not None]
    if not answers:
        return  # no run is saved, so there is nothing to say
    bad = sum(row.outcome != Outcome.OK for row in answers)
    where = "" if sweep.record.host == os.uname().nodename else f" on {sweep.record.host}"
    failures = f" ({bad} of them not ok)" if bad else ""
    done = f"{len(answers)} of {format_count(len(asked.cells), 'runs')} already done{failures}"
    listener.say(f"continuing the sweep of {sweep.record.started}{where}: {done}; --fresh starts over")
