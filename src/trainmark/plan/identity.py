"""Identity by content: the same cell has the same id on every machine and in every session."""

from __future__ import annotations

import hashlib
import json
import secrets
import time

from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell


def cell_id(cell: Cell | CommandCell) -> str:
    """Identifies what is measured; all repeats of a cell have the same."""
    fields = cell.to_json()
    del fields["repeat"]
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def new_run_id(cell: Cell | CommandCell) -> str:
    """Identifies one execution: sorted by time, readable, unique among concurrent controllers."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return f"{stamp}-{cell.label}-{cell_id(cell)[:6]}-r{cell.repeat}-{secrets.token_hex(2)}"
