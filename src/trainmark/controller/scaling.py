"""What sweeps asked for, so that a scaling study can say what is missing and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.messages.message import Message
from trainmark.spec.cell import Cell

if TYPE_CHECKING:
    from trainmark.analyse.scaling import Asked
    from trainmark.spec.command import CommandCell
    from trainmark.store.rows import RunRow

_TEXTS = ("workload", "framework", "recipe", "precision", "size", "device", "data")
_NUMBERS = ("nodes", "devices_per_node", "batch_size_per_device")
_MOST = 1 << 31


def asked_cells(cells: Iterable[Cell | CommandCell], skipped: Mapping[Cell, Message]) -> tuple[Asked, ...]:
    """One for each cell, not for each of its repeats; somebody's own command has no plan to keep to."""
    own = [cell for cell in cells if isinstance(cell, Cell)]
    pairs = [*((cell.to_json(), None) for cell in own), *((cell.to_json(), why) for cell, why in skipped.items())]
    return _unique(_read(cell, why, machine=None) for cell, why in pairs)


def read_asked(root: Path, rows: Sequence[RunRow], *, is_selection: bool) -> tuple[Asked, ...]:
    """What the sweeps of `rows` asked for, the newest first.

    Of a selection of runs only what was left out: what else is not among them may well have run.
    """
    from trainmark.store.sweeps import Sweeps

    machines: dict[str, set[str | None]] = {}
    for row in rows:
        if row.sweep is not None and row.workload is not None:
            machines.setdefault(row.sweep, set()).add(row.machine)
    sweeps = Sweeps(root)
    found: list[Asked | None] = []
    for sweep_id in sorted(machines, reverse=True):
        cells = sweeps.read_cells(sweep_id)
        if not _has_counts(cell for cell, _ in cells):
            continue  # most sweeps: nothing to study, and nothing to pay for
        own: list[str | None] = [*sorted(machine for machine in machines[sweep_id] if machine is not None)]
        wanted = [(cell, why) for cell, why in cells if why is not None or not is_selection]
        found += [_read(cell, why, machine=machine) for machine in own or [None] for cell, why in wanted]
    return _unique(found)


def _has_counts(cells: Iterable[Mapping[str, Any]]) -> bool:
    return len({str((cell.get("nodes"), cell.get("devices_per_node"))) for cell in cells}) > 1


def _read(cell: Mapping[str, Any], why: Message | None, *, machine: str | None) -> Asked | None:
    """None for one that no program of ours wrote."""
    from trainmark.analyse.scaling import Asked

    texts: dict[str, Any] = {name: cell.get(name) for name in _TEXTS}
    numbers: list[Any] = [cell.get(name) for name in _NUMBERS]
    epochs = cell.get("epochs")
    is_whole = all(_is_whole(number) for number in (*numbers, 1 if epochs is None else epochs))
    if not is_whole or not all(isinstance(text, str) for text in texts.values()):
        return None
    nodes, devices_per_node, batch_size = numbers
    return Asked(
        **texts,
        epochs=epochs,
        nodes=nodes,
        devices=nodes * devices_per_node,
        batch_size_per_device=batch_size,
        why_skipped=why,
        machine=machine,
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST


def _unique(found: Iterable[Asked | None]) -> tuple[Asked, ...]:
    return tuple(dict.fromkeys(cell for cell in found if cell is not None))
