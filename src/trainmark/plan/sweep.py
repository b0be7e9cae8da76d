"""Identity of a sweep: all runs that one command asks for. By content, so that the same command finds it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from trainmark.plan.identity import cell_id
from trainmark.plan.machine import Machine
from trainmark.runfolder.records import Outcome
from trainmark.spec.cell import Cell
from trainmark.spec.command import CommandCell

RunKey = tuple[str, int]
"""One planned run: the id of its cell and the number of the repeat."""

SETTLED = frozenset({Outcome.OK, Outcome.OUT_OF_MEMORY, Outcome.NAN, Outcome.FAILED, Outcome.TIMEOUT})
"""Outcomes that answer the question. A run that was killed or hung answers nothing and is repeated."""


def key_of(cell: Cell | CommandCell) -> RunKey:
    return cell_id(cell), cell.repeat


def machine_facts(machine: Machine) -> dict[str, Any]:
    """Hardware and software without the host name: a requeued job may continue on another machine that is equal."""
    return {
        "cpu": machine.cpu,
        "num_cores": machine.num_cores,
        "gpus": [gpu.name for gpu in machine.gpus],
        "driver": machine.driver,
        "frameworks": machine.frameworks,
    }


def content_id(asked: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> str:
    """Identifies a sweep: every run with all its settings, in order, and the settings that hold for all of them."""
    canonical = json.dumps([list(asked), settings], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode(errors="backslashreplace")).hexdigest()[:16]
