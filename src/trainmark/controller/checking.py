"""`check`: from a store and a baseline file to findings, or to a new baseline file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.analyse import laws
from trainmark.analyse.accepted import Accepted, Baseline, merge
from trainmark.analyse.accepting import Change, Refusal, accept, list_changes
from trainmark.analyse.batches import Batch, find_outdated, latest_batches, split_batches
from trainmark.analyse.gate import Key, judge_gate, key_of
from trainmark.analyse.gate_result import GateResult
from trainmark.analyse.replay import CellReplay, replay_cell
from trainmark.controller.baseline_file import read_baseline, write_baseline
from trainmark.errors import InputError

if TYPE_CHECKING:
    from trainmark.store.index import Store, Tell


@dataclass(frozen=True, kw_only=True)
class Measured:
    latest: tuple[Batch, ...]
    """The newest batch of each cell and machine: what is judged."""
    history: dict[Key, list[Batch]]
    """The earlier batches of the same cell and machine, in the order of time."""
    outdated: tuple[Batch, ...]
    """Also the newest of their cells, but of another commit than the newest of all; they are in `history` too."""
    suites: frozenset[str]
    """Of all runs, judged or not."""


def read_measured(store: Store, *, since_unix_s: float | None, tell: Tell) -> Measured:
    """A store that does not exist has measured nothing."""
    rows = []
    if store.root.is_dir():
        store.sync(tell=tell)
        rows = store.rows()
    laws.judge(rows)
    batches = split_batches(rows)
    recent = [batch for batch in batches if since_unix_s is None or _start(batch) >= since_unix_s]
    latest = latest_batches(recent)
    outdated = find_outdated(latest) if since_unix_s is None else []
    latest = [batch for batch in latest if batch not in outdated]
    judged = {id(batch) for batch in latest}
    history: dict[Key, list[Batch]] = {}
    for batch in batches:
        if id(batch) not in judged:
            history.setdefault(key_of(batch), []).append(batch)
    suites = frozenset(row.suite for row in rows if row.suite)
    return Measured(latest=tuple(latest), history=history, outdated=tuple(outdated), suites=suites)


def _start(batch: Batch) -> float:
    return batch.rows[-1].started_unix_s or 0.0


def check(measured: Measured, path: Path, suites: Sequence[str]) -> GateResult:
    """`suites`: only the cells of these; empty: all."""
    baseline = read_baseline(path)
    _refuse_unknown(suites, measured.suites | {cell.suite for cell in baseline.cells if cell.suite})
    if suites:
        measured = _only(measured, suites)
        baseline = replace(baseline, cells=tuple(cell for cell in baseline.cells if cell.suite in suites))
    return judge_gate(baseline, measured.latest, measured.history, outdated=measured.outdated)


@dataclass(frozen=True, kw_only=True)
class Update:
    changes: tuple[Change, ...]
    kept: tuple[Accepted, ...]
    """Blocks that stay as they are."""
    refusals: tuple[Refusal, ...]
    """Where there is one, nothing is written."""


def update(measured: Measured, path: Path, suites: Sequence[str]) -> Update:
    """Write the latest runs into the baseline: all of them, or none if one is refused."""
    old = read_baseline(path) if path.exists() else Baseline(cells=())
    _refuse_unknown(suites, measured.suites)
    wanted = _only(measured, suites) if suites else measured
    answers = [accept(batch) for batch in wanted.latest]
    refusals = tuple(answer for answer in answers if isinstance(answer, Refusal))
    new = [answer for answer in answers if isinstance(answer, Accepted)]
    keys = {cell.key for cell in new}
    kept = tuple(cell for cell in old.cells if cell.key not in keys)
    if new and not refusals:
        write_baseline(path, merge(old.cells, new))
    return Update(changes=tuple(list_changes(old.cells, new)), kept=kept, refusals=refusals)


def _only(measured: Measured, suites: Sequence[str]) -> Measured:
    return replace(measured, latest=tuple(batch for batch in measured.latest if batch.first.suite in suites))


def _refuse_unknown(suites: Sequence[str], known: frozenset[str]) -> None:
    for suite in suites:
        if suite not in known:
            hint = f"known: {', '.join(sorted(known)) or 'none'}"
            raise InputError(f"no run and no cell of the baseline is of suite {suite!r}", hint=hint)


def replay(measured: Measured, path: Path) -> list[CellReplay]:
    """With the tolerances of the baseline file, if there is one."""
    rules = read_baseline(path).rules if path.exists() else ()
    batches = {key: [*earlier] for key, earlier in measured.history.items()}
    for batch in measured.latest:
        batches.setdefault(key_of(batch), []).append(batch)
    found = [replay_cell(same, rules) for same in batches.values()]
    return sorted(found, key=lambda cell: (cell.name, cell.machine))
