"""Runs of a store, for the verbs that print results."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.output import next_command, talk
from trainmark.errors import InputError, StoreError
from trainmark.runfolder.ending import ExitRecord
from trainmark.runfolder.files import OUTPUT_FILE
from trainmark.units import format_count

if TYPE_CHECKING:
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow

_PATIENCE_S = 3.0


def open_store(root: Path) -> Store:
    """Keeps the analysis of each run beside it, so that nobody waits for it twice."""
    from trainmark.report.document import result_analyser
    from trainmark.store.index import Store

    refuse_file(root)
    return Store(root, analyser=result_analyser())


def refuse_file(root: Path) -> None:
    """A store is a folder, or a name that is free."""
    try:
        is_file = root.exists() and not root.is_dir()
    except OSError:  # whoever may not look there hears so when it is opened
        return
    if is_file:
        raise StoreError(f"the store {root} is a file", why="results are kept in a folder", hint="give --store DIR")


def read_rows(root: Path, wanted: Sequence[str] = (), *, reindex: bool = False) -> list[RunRow]:
    """Those whose id begins with one of `wanted`, or all."""
    if "" in wanted:
        raise InputError("an empty name names no run", hint="leave it out for all runs; trainmark show lists them")
    store = open_store(root)
    if not root.is_dir():
        raise StoreError(f"there is no store at {root}", hint="run something first: trainmark run quick")
    if reindex:
        store.reindex(tell=Patience())
    else:
        store.sync(tell=Patience())
    rows = store.rows(wanted=lambda run_id: not wanted or run_id.startswith(tuple(wanted)))
    for prefix in wanted:
        if not any(row.id.startswith(prefix) for row in rows):
            raise StoreError(f"no run begins with {prefix!r} in {root}", hint="trainmark show lists all of them")
    if not rows:
        raise StoreError(f"no runs in {root}", hint="run something first: trainmark run quick")
    return rows


class Patience:
    """Says once what takes so long; most calls never do.

    The clock runs from the first run that is done: with it the analysis is loaded, which no number of runs explains.
    """

    def __init__(self) -> None:
        self._begin: float | None = None
        self._has_spoken = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        self._begin = self._begin or now
        if not self._has_spoken and done < total and now - self._begin > _PATIENCE_S:
            self._has_spoken = True
            talk(f"indexing {format_count(total, 'runs')}, {done} done; the next time they are known")


def print_results(rows: Sequence[RunRow], *, protocol: str | None = None, **more: Any) -> None:
    """The `--json` document on stdout."""
    from trainmark.report.document import render_document, render_runs

    sys.stdout.write(render_document(render_runs(rows, protocol=protocol), **more))


def say_next(rows: Sequence[RunRow], store: Store, *, given: str) -> None:
    """A report is of use where there is a number to report; else the file that says why there is none.

    The first of `rows` that has such a file is taken; `given` is the store as it was typed.
    """
    if any(row.outcome == "ok" for row in rows) or store.rows(outcome="ok"):
        next_command("trainmark report", store=given)
        return
    for row in rows:
        folder = store.root / row.id
        ending = ExitRecord.read(folder)
        stated = ending.look_at if ending is not None else None
        look_at = folder / str(stated or OUTPUT_FILE)
        if row.outcome is not None and look_at.is_file() and (stated or look_at.stat().st_size):
            next_command(f"look at {shlex.quote(str(look_at))}")
            return
