"""What a plan asked for, so that a scaling study can say what is missing and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.analyse.scaling import Asked
    from trainmark.cli.specify import Plan


def asked_cells(plan: Plan) -> tuple[Asked, ...]:
    """One for each cell, not for each of its repeats."""
    from trainmark.analyse.scaling import Asked

    found = (
        Asked(
            workload=cell.workload,
            framework=cell.framework,
            recipe=cell.recipe,
            precision=cell.precision,
            size=cell.size,
            device=cell.device,
            data=str(cell.data),
            epochs=cell.epochs,
            nodes=cell.nodes,
            devices=cell.num_devices,
            batch_size_per_device=cell.batch_size_per_device,
            why_skipped=plan.skipped.get(cell),
        )
        for cell in plan.cells
    )
    return tuple(dict.fromkeys(found))
