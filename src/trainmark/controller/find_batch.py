"""`trainmark run WORKLOAD --find-batch`: the largest batch for each device that fits, each try a run of its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark import host
from trainmark.cli.output import talk
from trainmark.controller.execute import Task, run_probe
from trainmark.errors import InputError, RunError
from trainmark.launch.registry import launchers
from trainmark.plan.batch_search import Found, search_batch
from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell
from trainmark.units import format_bytes

if TYPE_CHECKING:
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow

MakeTask = Callable[[Cell], Task]
_PURPOSE = "find-batch"
_NUM_STEPS = 3
"""The second is the first with the optimizer's state; the third shows that memory is given back."""
_MAX_TRIES = 24
_MOST = 1 << 20
_HOST_SHARE = 0.9
_FITS = (Outcome.OK, Outcome.NAN)
"""A loss that is no number came from a step that had its memory."""


def add_find_batch_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--find-batch",
        action="store_true",
        help="first find the largest batch for each device that fits, beginning at --batch-size; then measure with it",
    )


def find_batches(
    cells: Sequence[Cell], make_task: MakeTask, most: Callable[[Cell], int | None], args: argparse.Namespace
) -> list[Task]:
    """The cells with the largest batch of each kind; kinds differ in anything but batch and repeat."""
    if launchers().load(args.launcher).prints is not None:
        raise InputError("--find-batch needs real runs", hint=f"leave out --launcher {args.launcher}")
    from trainmark.cli.results import open_store

    store = open_store(Path(args.store))
    store.check_writable()
    searches: dict[Cell, _Search] = {}
    tasks: dict[Cell, Task] = {}
    for cell in cells:
        kind = replace(cell, batch_size_per_device=1, repeat=1)
        if kind not in searches:
            searches[kind] = _Search(cell, make_task, store)
            searches[kind].run(most(cell) or _MOST)
        search = searches[kind]
        wanted = replace(cell, batch_size_per_device=search.found.largest or 1)
        task = make_task(wanted)
        tasks[wanted] = replace(task, facts={**task.facts, **search.limit, "find_batch": search.describe()})
    return list(tasks.values())


class _Search:
    def __init__(self, cell: Cell, make_task: MakeTask, store: Store) -> None:
        self._cell = replace(cell, epochs=None, until_target=(), repeat=1)
        self._make_task, self._store = make_task, store
        self._tries: list[RunRow] = []
        self.limit = _limit(self._make_task(self._cell), cell)
        self.found = Found(largest=None, too_large=None, num_tries=0, is_exact=False)

    def run(self, most: int) -> None:
        if self.limit:
            share = format_bytes(self.limit["memory_limit_bytes"])
            talk(f"each process may have {share}: beyond that the kernel would end processes of others too")
        self.found = search_batch(self._cell.batch_size_per_device, self._fits, most=most, max_tries=_MAX_TRIES)
        talk(f"{self._title}: {describe_found(self.found, most)}")

    def describe(self) -> dict[str, Any]:
        tries = [
            {"batch_size": row.batch_size_per_device, "outcome": row.outcome, "run": row.id} for row in self._tries
        ]
        return {**vars(self.found), "tries": tries}

    @property
    def _title(self) -> str:
        return f"{self._cell.workload} {self._cell.recipe} {self._cell.precision}"

    def _fits(self, size: int) -> bool:
        task = self._make_task(replace(self._cell, batch_size_per_device=size))
        measure = {**task.facts["measure"], "max_steps": _NUM_STEPS}
        facts = {**task.facts, **self.limit, "measure": measure, "purpose": _PURPOSE}
        row = run_probe(replace(task, facts=facts), self._store)
        self._tries.append(row)
        if row.outcome in _FITS:
            return True
        if row.outcome == Outcome.OUT_OF_MEMORY:
            return False
        hint = f"see {self._store.root / row.id}; memory was not what ended it"
        raise RunError(f"the search ended at batch {size}: {row.outcome}", why=row.reason, hint=hint)


def describe_found(found: Found, most: int) -> str:
    if found.largest is None:
        return f"nothing fits: batch {found.too_large} does not; try --precision bf16, --size small or a larger device"
    text = f"largest batch that fits: {found.largest}"
    if found.too_large is not None:
        text += f" ({found.too_large} does not)"
    elif found.largest >= most:
        text += f" (larger ones than {most} make no sense here)"
    return text if found.is_exact else f"{text}; there may be a larger one, but {found.num_tries} tries are enough"


def _limit(task: Task, cell: Cell) -> dict[str, Any]:
    """On a CPU the host's memory is shared: each process gets its part of what is free, so that it fails by itself."""
    if cell.device != "cpu" or "memory_limit_bytes" in task.facts:
        return {}
    return {"memory_limit_bytes": int(_HOST_SHARE * host.free_bytes() / cell.devices_per_node)}
