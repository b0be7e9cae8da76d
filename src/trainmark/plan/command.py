"""The command that measures one cell, for a machine that can."""

from __future__ import annotations

from trainmark.spec.catalog import Offer
from trainmark.spec.cell import Cell


def run_command(cell: Cell, *, offer: Offer, repeat: int = 1, has_data: bool = True) -> list[str]:
    """`trainmark run` with the cell's own axes. For the reader to replace: other machines are called NODE1 and so on,
    and a data set that is not here DIR.
    """
    argv = ["trainmark", "run", cell.workload]
    argv += [] if cell.framework == offer.frameworks[0] else ["--framework", cell.framework]
    argv += ["--recipe", cell.recipe, "--precision", cell.precision]
    argv += [] if cell.size == "full" else ["--size", cell.size]
    argv += ["--device", cell.device]
    argv += [] if cell.nodes == 1 else ["--nodes", str(cell.nodes)]
    argv += ["--devices", str(cell.devices_per_node), "--batch-size", str(cell.batch_size_per_device)]
    argv += [] if cell.data.kind == "synthetic" else ["--data", str(cell.data) if has_data else "DIR"]
    argv += [] if cell.epochs is None else ["--epochs", str(cell.epochs)]
    argv += [] if cell.lr is None else ["--lr", repr(cell.lr)]
    argv += [] if cell.weights is None else ["--weights", cell.weights.path]
    argv += [] if cell.seed == 0 else ["--seed", str(cell.seed)]
    argv += [] if repeat == 1 else ["--repeat", str(repeat)]
    argv += [] if cell.nodes == 1 else ["--hosts", ",".join(node_names(cell.nodes))]
    if cell.until_target:
        argv += ["--until-target"]
        argv += [] if cell.until_target == offer.targets else [repr(cell.until_target[0][1])]
    return argv


def node_names(number: int) -> list[str]:
    """In place of host names that are not known here."""
    return [f"NODE{node}" for node in range(1, number + 1)]
