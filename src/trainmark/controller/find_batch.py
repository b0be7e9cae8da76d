"""`run --find-batch`: the largest batch per device that fits in memory. Each try is a short run of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from trainmark import host
from trainmark.controller.execute import Task, run_probe
from trainmark.controller.listener import Listener
from trainmark.errors import RunError
from trainmark.plan.batch_search import Found, search_batch
from trainmark.runfolder.document import MeasureRecord, RunDocument
from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell
from trainmark.units import format_bytes

if TYPE_CHECKING:
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow

MakeTask = Callable[[Cell], Task]
_PURPOSE = "find-batch"
_NUM_STEPS = 3
"""The second step is the first with the optimizer's state; the third shows that memory is freed again."""
_MAX_TRIES = 24
_MAX_BATCH = 1 << 20
_HOST_SHARE = 0.9
_FITS = (Outcome.OK, Outcome.NAN)
"""A loss of NaN came from a step that had enough memory."""


def find_batches(
    cells: Sequence[Cell],
    make_task: MakeTask,
    *,
    max_batch: Callable[[Cell], int | None],
    store: Store,
    listener: Listener,
) -> list[Task]:
    """The tasks of `cells` with the largest batch that fits; cells that differ only in batch and repeat share one."""
    store.check_writable()
    searches: dict[Cell, _Search] = {}
    tasks: dict[Cell, Task] = {}
    for cell in cells:
        kind = replace(cell, batch_size_per_device=1, repeat=1)
        if kind not in searches:
            searches[kind] = _Search(cell, make_task, store, listener)
            searches[kind].run(max_batch(cell) or _MAX_BATCH)
        search = searches[kind]
        wanted = replace(cell, batch_size_per_device=search.found.largest or 1)
        task = make_task(wanted)
        tasks[wanted] = replace(task, document=search.complete(task.document))
    return list(tasks.values())


class _Search:
    def __init__(self, cell: Cell, make_task: MakeTask, store: Store, listener: Listener) -> None:
        self._cell = replace(cell, epochs=None, until_target=(), repeat=1)
        self._make_task, self._store, self._listener = make_task, store, listener
        self._tries: list[RunRow] = []
        self._limit_bytes = _limit_memory(make_task(self._cell), cell)
        self.found = Found(largest=None, too_large=None, num_tries=0, is_exact=False)

    def run(self, max_batch: int) -> None:
        if self._limit_bytes is not None:
            share = format_bytes(self._limit_bytes)
            self._listener.say(f"limiting each process to {share}, so that the kernel kills no other process")
        self.found = search_batch(self._cell.batch_size_per_device, self._fits, most=max_batch, max_tries=_MAX_TRIES)
        title = f"{self._cell.workload} {self._cell.recipe} {self._cell.precision}"
        self._listener.say(f"{title}: {describe_found(self.found, max_batch)}")

    def complete(self, document: RunDocument) -> RunDocument:
        """With the course of the search, for people to read."""
        tries = [
            {"batch_size": row.batch_size_per_device, "outcome": row.outcome, "run": row.id} for row in self._tries
        ]
        return replace(self._limited(document), find_batch={**asdict(self.found), "tries": tries})

    def _limited(self, document: RunDocument) -> RunDocument:
        return document if self._limit_bytes is None else replace(document, memory_limit_bytes=self._limit_bytes)

    def _fits(self, size: int) -> bool:
        task = self._make_task(replace(self._cell, batch_size_per_device=size))
        measure = replace(task.document.measure or MeasureRecord(), max_steps=_NUM_STEPS)
        document = replace(self._limited(task.document), measure=measure, purpose=_PURPOSE)
        row = run_probe(replace(task, document=document), self._store, self._listener)
        self._tries.append(row)
        if row.outcome in _FITS:
            return True
        if row.outcome == Outcome.OUT_OF_MEMORY:
            return False
        hint = f"see {self._store.root / row.id}; the cause is not a lack of memory"
        raise RunError(f"the batch search failed at batch {size}: {row.outcome}", why=row.reason, hint=hint)


def describe_found(found: Found, max_batch: int) -> str:
    if found.largest is None:
        return f"even batch {found.too_large} does not fit; try --precision bf16, --size small or a larger device"
    text = f"largest batch that fits: {found.largest}"
    if found.too_large is not None:
        text += f" ({found.too_large} does not)"
    elif found.largest >= max_batch:
        text += f" (the limit is {max_batch})"
    return text if found.is_exact else f"{text}; stopped after {found.num_tries} tries, a larger one may fit"


def _limit_memory(task: Task, cell: Cell) -> int | None:
    """On a CPU the host's memory is shared: each process gets its part of what is free, and fails on its own."""
    if cell.device != "cpu" or task.document.memory_limit_bytes is not None:
        return None
    return int(_HOST_SHARE * host.free_bytes() / cell.devices_per_node)
