"""How long the runs of a sweep will still take, learned from the store and from the runs that are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainmark.plan.estimate import Duration, PastRun, total

if TYPE_CHECKING:
    from trainmark.controller.execute import Task
    from trainmark.store.index import Store
    from trainmark.store.rows import RunRow


def read_past(store: Store) -> list[PastRun]:
    """The finished runs of a store, as far as they tell how long runs take."""
    return [past for row in store.rows() if (past := _past_run(row)) is not None] if store.root.is_dir() else []


class Outlook:
    """Learns from each run of a sweep what the rest will take."""

    def __init__(self, past: Sequence[PastRun]) -> None:
        self._past = list(past)

    def add(self, row: RunRow) -> None:
        past = _past_run(row)
        if past is not None:
            self._past.append(past)

    def left(self, tasks: Iterable[Task]) -> Duration | None:
        """None if one of them may take any time."""
        return total(task.duration(self._past) for task in tasks)


def _past_run(row: RunRow) -> PastRun | None:
    if row.outcome != "ok" or row.wall_s is None:
        return None
    return PastRun(
        cell_id=row.cell_id,
        workload=row.workload,
        framework=row.framework,
        recipe=row.recipe,
        size=row.size,
        device=row.device,
        devices=row.devices,
        batch_size_per_device=row.batch_size_per_device,
        wall_s=row.wall_s,
        setup_s=row.first_step_s,
        steps_s=row.stamped_s,
        num_steps=row.num_records,
    )
