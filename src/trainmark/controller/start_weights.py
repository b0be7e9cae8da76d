"""`--weights FILE`: its identity before the plan, and whether it fits the model before the first process starts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainmark.errors import InputError
from trainmark.spec.cell import Cell, StartWeights
from trainmark.workloads.registry import load_card, load_module


def identify_weights(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """With an absolute path and the SHA-256 of the file, which is part of what a cell measures."""
    known: dict[str, StartWeights] = {}
    return tuple(
        cell if cell.weights is None else replace(cell, weights=_identify(cell.weights, known)) for cell in cells
    )


def _identify(weights: StartWeights, known: dict[str, StartWeights]) -> StartWeights:
    if weights.path not in known:
        from trainmark.weights.reading import read_bytes  # with numpy, which `plan` of random weights does without

        path = Path(weights.path).absolute()
        known[weights.path] = StartWeights(path=str(path), sha256=hashlib.sha256(read_bytes(path)).hexdigest())
    return known[weights.path]


def check_weights(cells: Iterable[Cell], say: Callable[[str], None]) -> None:
    """Reads each file as the worker will, and says what of it will be loaded."""
    checked = {
        (cell.workload, cell.recipe, cell.data.path, cell.weights): cell for cell in cells if cell.weights is not None
    }
    for cell in checked.values():
        from trainmark.weights.loading import load_start

        assert cell.weights is not None
        start = load_start(
            Path(cell.weights.path),
            workload=cell.workload,
            shapes=_tensor_shapes(cell),
            recipe=cell.recipe,
            seed=cell.seed,
        )
        say(f"{cell.workload} starts from {start.sentence}")


def load_layers(workload: str, *, what: str) -> Any:
    """The module that lists the tensors of a workload; `what` cannot be done without it."""
    try:
        return load_module(workload, "weights")
    except ModuleNotFoundError as error:
        why = f"{workload} comes from a plugin that does not say which layers it has"
        raise InputError(f"{what} is not possible", why=why, hint="add a weights.py beside its card.py") from error


def _tensor_shapes(cell: Cell) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = load_layers(cell.workload, what="--weights").tensor_shapes(_num_classes(cell))
    return shapes


def _num_classes(cell: Cell) -> int:
    card = load_card(cell.workload)
    if cell.data.path is None:
        return card.num_classes
    from trainmark.datasets.formats import find_format

    return find_format(card.dataset).summarise(Path(cell.data.path)).num_classes


def weights_record(cell: Cell) -> dict[str, Any] | None:
    """For run.json: where the worker finds the file, and how it knows that it is the same."""
    return None if cell.weights is None else {"path": cell.weights.path, "sha256": cell.weights.sha256}
