"""Reads results from a store, and what the sweeps behind them asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.errors import InputError, StoreError
from trainmark.messages.message import Message
from trainmark.runfolder.ending import ExitRecord
from trainmark.runfolder.files import OUTPUT_FILE

if TYPE_CHECKING:
    from trainmark.analyse.scaling import Asked
    from trainmark.spec.cell import Cell
    from trainmark.spec.command import CommandCell
    from trainmark.store.index import Store, Tell
    from trainmark.store.rows import RunRow

_TEXTS = ("workload", "framework", "recipe", "precision", "size", "device", "data")
_NUMBERS = ("nodes", "devices_per_node", "batch_size_per_device")
_MAX_NUMBER = 1 << 31


def refuse_file(root: Path) -> None:
    """A store is a folder, or does not exist yet."""
    try:
        is_file = root.exists() and not root.is_dir()
    except OSError:  # opening it will say what is wrong
        return
    if is_file:
        raise StoreError(f"--store {root}: is a file, expected a folder", hint="use --store DIR")


def read_rows(
    store: Store, wanted: Sequence[str] = (), *, reindex: bool = False, is_synced: bool = False, tell: Tell
) -> list[RunRow]:
    """The runs whose id begins with one of `wanted`, or all; an error if there are none."""
    from trainmark.analyse.laws import judge

    if "" in wanted:
        hint = f"leave out RUN for all runs; run ids are the folder names in {store.root}"
        raise InputError("a run id must not be empty", hint=hint)
    if not store.root.is_dir():
        raise StoreError(f"store not found: {store.root}", hint="run something first: trainmark run quick")
    if reindex:
        store.reindex(tell=tell)
    elif not is_synced:
        store.sync(tell=tell)
    everything = store.rows()
    judge(everything)  # before some are selected: a mark may come from a run that is not shown
    rows = [row for row in everything if not wanted or row.id.startswith(tuple(wanted))]
    for prefix in wanted:
        if not any(row.id.startswith(prefix) for row in rows):
            raise StoreError(
                f"no run id in {store.root} begins with {prefix!r}",
                hint=f"run ids are the folder names in {store.root}",
            )
    if not rows:
        raise StoreError(f"no runs in {store.root}", hint="run something first: trainmark run quick")
    return rows


def find_explanation(rows: Sequence[RunRow], store: Store) -> Path | None:
    """The file that says why a run gave no result: of the first of `rows` that has one."""
    for row in rows:
        folder = store.root / row.id
        ending = ExitRecord.read(folder)
        stated = ending.look_at if ending is not None else None
        look_at = folder / (stated or OUTPUT_FILE)
        if row.outcome is not None and look_at.is_file() and (stated or look_at.stat().st_size):
            return look_at
    return None


def asked_cells(cells: Iterable[Cell | CommandCell], skipped: Mapping[Cell, Message]) -> tuple[Asked, ...]:
    """What a sweep asked for, so that a scaling study can name what is missing: each cell once, commands left out."""
    from trainmark.spec.cell import Cell

    own = [cell for cell in cells if isinstance(cell, Cell)]
    pairs = [*((cell.to_json(), None) for cell in own), *((cell.to_json(), why) for cell, why in skipped.items())]
    return _unique(_read_asked(cell, why, machine=None) for cell, why in pairs)


def read_asked(root: Path, rows: Sequence[RunRow], *, is_selection: bool) -> tuple[Asked, ...]:
    """What the sweeps of `rows` asked for, the newest first.

    Of a selection of runs only what was skipped: the other missing cells may have run and not been selected.
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
        if not _has_several_counts(cell for cell, _ in cells):
            continue  # most sweeps: no scaling study, so nothing more to read
        own: list[str | None] = [*sorted(machine for machine in machines[sweep_id] if machine is not None)]
        wanted = [(cell, why) for cell, why in cells if why is not None or not is_selection]
        found += [_read_asked(cell, why, machine=machine) for machine in own or [None] for cell, why in wanted]
    return _unique(found)


def _has_several_counts(cells: Iterable[Mapping[str, Any]]) -> bool:
    return len({str((cell.get("nodes"), cell.get("devices_per_node"))) for cell in cells}) > 1


def _read_asked(cell: Mapping[str, Any], why: Message | None, *, machine: str | None) -> Asked | None:
    """None for a cell with impossible values: the file may come from a stranger."""
    from trainmark.analyse.scaling import Asked

    texts: dict[str, Any] = {name: cell.get(name) for name in _TEXTS}
    numbers: list[Any] = [cell.get(name) for name in _NUMBERS]
    epochs = cell.get("epochs")
    is_valid = all(_is_count(number) for number in (*numbers, 1 if epochs is None else epochs))
    if not is_valid or not all(isinstance(text, str) for text in texts.values()):
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


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_NUMBER


def _unique(found: Iterable[Asked | None]) -> tuple[Asked, ...]:
    return tuple(dict.fromkeys(cell for cell in found if cell is not None))
