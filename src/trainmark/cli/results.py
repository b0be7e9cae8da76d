"""Rows of a store, for the verbs that print results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.errors import StoreError

if TYPE_CHECKING:
    from trainmark.store.rows import RunRow


def read_rows(root: Path, wanted: Sequence[str] = (), *, reindex: bool = False) -> list[RunRow]:
    from trainmark.store.index import Store

    if not root.is_dir():
        raise StoreError(f"there is no store at {root}", hint="run something first: trainmark run quick")
    store = Store(root)
    if reindex:
        store.reindex()
    else:
        store.sync()
    rows = store.rows()
    for prefix in wanted:
        if not any(row.id.startswith(prefix) for row in rows):
            raise StoreError(f"no run begins with {prefix!r} in {root}", hint="trainmark show lists all of them")
    rows = [row for row in rows if not wanted or row.id.startswith(tuple(wanted))]
    if not rows:
        raise StoreError(f"no runs in {root}", hint="run something first: trainmark run quick")
    return rows
