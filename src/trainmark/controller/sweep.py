"""The sweep that `run` works at: a new one, or one that was cut short, with all that is done of it already."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainmark.cli.output import talk
from trainmark.errors import RunError
from trainmark.messages.message import Message
from trainmark.plan.identity import cell_id
from trainmark.plan.sweep import SETTLED, RunKey, key_of
from trainmark.runfolder.files import Json, find_checkpoint
from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell
from trainmark.store.sweeps import Sweeps
from trainmark.units import format_count

if TYPE_CHECKING:
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow
    from trainmark.store.sweeps import HeldSweep, SweepRecord


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """What one command asks for."""

    content: str
    """Its identity: see `plan.sweep.content_id`."""
    cells: Sequence[Cell | CommandCell]
    skipped: Mapping[Cell, Message] = field(default_factory=dict)
    settings: Json = field(default_factory=dict)


class SweepRuns:
    """The attempts of a sweep, by the run that they were to be."""

    def __init__(self, record: SweepRecord, store: Store, *, resumes: bool = False) -> None:
        self.record = record
        self._store, self._resumes = store, resumes
        self._attempts: dict[RunKey, list[RunRow]] = {}

    def add(self, row: RunRow) -> None:
        key = (row.cell_id, row.repeat or 0)
        others = [other for other in self._attempts.get(key, ()) if other.id != row.id]
        self._attempts[key] = sorted([*others, row], key=lambda each: each.attempt or 0)

    def answer(self, cell: Cell | CommandCell) -> RunRow | None:
        """The last attempt, if it answers what was asked; None where the run is still to be made."""
        attempts = self._attempts.get(key_of(cell))
        return attempts[-1] if attempts and self._is_settled(attempts[-1]) else None

    def results(self, cells: Sequence[Cell | CommandCell]) -> list[RunRow]:
        """One for each run that was begun: its last attempt."""
        return [attempts[-1] for cell in cells if (attempts := self._attempts.get(key_of(cell)))]

    def facts(self, cell: Cell | CommandCell) -> Json:
        """For run.json of the next attempt: where it belongs, what it stands for, where a training goes on."""
        earlier = self._attempts.get(key_of(cell), [])
        found: Json = {"sweep": self.record.id, "attempt": len(earlier) + 1}
        if earlier:
            found["retry_of"] = earlier[-1].id
        checkpoint = self._find_checkpoint(cell, earlier) if isinstance(cell, Cell) and cell.epochs else None
        return found if checkpoint is None else {**found, "resumed_from": checkpoint}

    def read_done(self) -> None:
        """What earlier controllers left; what looks cut short is read anew, since a reader may have come too early."""
        self._store.sync()
        for row in self._store.rows(sweep=self.record.id):
            folder = self._store.root / row.id
            again = row if row.outcome in SETTLED else self._store.index(folder)
            if again is not None and folder.is_dir():
                self.add(again)

    def cut_short(self) -> list[str]:
        return [row.id for rows in self._attempts.values() for row in rows if row.outcome not in SETTLED]

    def _is_settled(self, row: RunRow) -> bool:
        """Who says --resume wants a training that failed or took too long to go on as well, where it can."""
        can_go_on = self._resumes and row.outcome != Outcome.OK and self._has_checkpoint(row.id)
        return row.outcome in SETTLED and not can_go_on

    def _find_checkpoint(self, cell: Cell, earlier: Sequence[RunRow]) -> str | None:
        own = [row.id for row in earlier if self._has_checkpoint(row.id)]
        if not own and not self._resumes:
            return None
        found = own or [run_id for run_id in self._cut_short(cell) if self._has_checkpoint(run_id)]
        if not found:
            talk(f"{cell.title}: no checkpoint of it in {self._store.root}; it starts from the beginning")
            return None
        talk(f"{cell.title}: goes on from {max(found)}")
        return max(found)

    def _cut_short(self, cell: Cell) -> list[str]:
        self._store.sync()
        same = self._store.rows(cell_id=cell_id(cell), repeat=cell.repeat)
        return [row.id for row in same if row.outcome not in (None, Outcome.OK)]

    def _has_checkpoint(self, run_id: str) -> bool:
        return find_checkpoint(self._store.root / run_id) is not None


@contextlib.contextmanager
def open_sweep(
    asked: SweepRequest, store: Store, *, fresh: bool, resumes: bool
) -> Iterator[tuple[HeldSweep, SweepRuns]]:
    """The newest of the same content that was left unfinished and that no living process works at, or a new one."""
    sweeps = Sweeps(store.root)
    if fresh:
        sweeps.abandon(asked.content)
    held = sweeps.take_up(asked.content)
    goes_on = held is not None
    if held is None:
        planned = [_describe(cell) for cell in asked.cells]
        skipped = [{**_describe(cell), **reason.to_reason()} for cell, reason in asked.skipped.items()]
        held = sweeps.begin(asked.content, planned=planned, skipped=skipped, settings=asked.settings)
    try:
        sweep = SweepRuns(held.record, store, resumes=resumes)
        if goes_on:
            sweep.read_done()
            end_all(sweep.cut_short())
            _say_what_is_done(sweep, asked)
        yield held, sweep
    finally:
        held.release()


def find_unfinished(content: str, store: Store) -> SweepRuns | None:
    """The sweep that `run` would continue, to be looked at."""
    record = Sweeps(store.root).find(content)
    if record is None:
        return None
    sweep = SweepRuns(record, store)
    sweep.read_done()
    return sweep


def end_all(run_ids: Sequence[str]) -> None:
    """A run starts clean or not at all: what an earlier one left behind would take its memory, ports and time."""
    from trainmark.launch.processes import kill_left

    left = kill_left(run_ids) if run_ids else []
    if left:
        pids = ", ".join(str(pid) for pid in left)
        why = f"{format_count(len(left), 'processes')} of it cannot be ended: {pids}"
        hint = "end them (a restart may be needed), then the same command goes on; finished runs are kept"
        raise RunError(f"the run {run_ids[-1]} left something behind", why=why, hint=hint)


def _describe(cell: Cell | CommandCell) -> Json:
    return {"cell_id": cell_id(cell), "repeat": cell.repeat, "title": cell.title, "cell": cell.to_json()}


def _say_what_is_done(sweep: SweepRuns, asked: SweepRequest) -> None:
    answers = [row for cell in asked.cells if (row := sweep.answer(cell)) is not None]
    if not answers:
        return  # nothing is spared, so there is nothing to say
    bad = sum(row.outcome != Outcome.OK for row in answers)
    where = "" if sweep.record.host == os.uname().nodename else f" on {sweep.record.host}"
    told = f", {bad} of them not ok" if bad else ""
    be = "is" if len(asked.cells) == 1 else "are"
    done = f"{len(answers)} of {format_count(len(asked.cells), 'runs')} {be} done{told}"
    talk(f"continues the sweep of {sweep.record.started}{where}: {done}; --fresh starts anew")
