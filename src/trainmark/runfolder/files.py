"""The run folder: its files, the records in it, and how they are written so that a crash loses at most one line.

    run.json      the cell, resolved              rank<k>.jsonl  append-only records, one JSON object a line
    command.json  argv, environment, launcher     output.log     what the processes printed
    env.json      machine and software            exit.json      outcome, with the reason and where to look
    log.jsonl     records read from the output of a command that writes none itself
    checkpoint.pt where a training can go on, replaced from time to time
    stop          appears when the controller asks the worker to end at the next block of steps
    lease         written again and again while the controller lives, for processes that outlive its signals
    rank<k>.stacks  what each thread was doing when a step took far too long; stacks.txt for a command

Standard library only: the worker writes these inside any vendor container, and everything else reads them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = 1
RUN_FILE = "run.json"
COMMAND_FILE = "command.json"
ENVIRONMENT_FILE = "env.json"
EXIT_FILE = "exit.json"
OUTPUT_FILE = "output.log"
LOG_FILE = "log.jsonl"
CHECKPOINT_FILE = "checkpoint.pt"
STOP_FILE = "stop"
LEASE_FILE = "lease"
NETWORK_REQUEST_FILE = "network-request.json"
NETWORK_FILE = "network.json"
"""Of `doctor --network`: what to measure, and what was measured. Not part of a run."""
STACKS_FILE = "stacks.txt"

Json = dict[str, Any]


def rank_file(rank: int) -> str:
    return f"rank{rank}.jsonl"


def stacks_file(rank: int) -> str:
    return f"rank{rank}.stacks"


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Whole or not at all: written beside, forced to disk, renamed over."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # A name that is no text (a lone surrogate) becomes its JSON escape.
        with beside.open("w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(value, file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def read_json(path: Path) -> Json | None:
    """None where the file is absent or not a JSON object: a reader of stranger's folders must go on."""
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_end(path: Path, num_bytes: int) -> str:
    """The last of a text file; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - num_bytes))
            return file.read(num_bytes).decode("utf-8", errors="replace")
    except OSError:
        return ""
