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
from collections.abc import Iterator, Mapping
from enum import StrEnum
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
RUN_TAG = "TRAINMARK_RUN"
"""In the environment of every process of a run, so that clean-up can find all of them and only them."""
PREFLIGHT_SIGN = "TRAINMARK_PREFLIGHT "
"""Before the answer of a machine in its output, which a launcher may put its own tag in front of."""
NETWORK_REQUEST_FILE = "network-request.json"
NETWORK_FILE = "network.json"
"""Of `doctor --network`: what to measure, and what was measured. Not part of a run."""
STACKS_FILE = "stacks.txt"

Json = dict[str, Any]


class Outcome(StrEnum):
    OK = "ok"
    OUT_OF_MEMORY = "oom"
    NAN = "nan"
    HANG = "hang"
    KILLED = "killed"
    FAILED = "failed"
    TIMEOUT = "timeout"


class WarningCode(StrEnum):
    """Of the warnings that a worker or its controller writes while a run goes on, but those of `worker.isolation`."""

    BAD_SAMPLE = "bad-sample"
    NOT_COMPILED = "not-compiled"
    TARGET_NOT_REACHED = "target-not-reached"
    NO_RECORDS = "no-records"


class Kind(StrEnum):
    RUN_START = "run_start"
    STEP = "step"
    EVAL = "eval"
    PHASE = "phase"
    COMMUNICATION = "communication"
    TELEMETRY = "telemetry"
    WARNING = "warning"
    RUN_END = "run_end"


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


def encode_record(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace") + b"\n"


def decode_record(line: bytes) -> Json | None:
    """None for a torn or foreign line, which a kill or a full disk may leave."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("kind"), str) else None


def read_records(path: Path) -> Iterator[Json]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            record = decode_record(line)
            if record is not None:
                yield record


class RecordTail:
    """Reads the complete lines that were appended since the last look, for progress and the stopping rule."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read_new(self) -> list[Json]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read()
        except FileNotFoundError:
            return []
        end = chunk.rfind(b"\n") + 1
        self._offset += end
        decoded = (decode_record(line) for line in chunk[:end].splitlines())
        return [record for record in decoded if record is not None]
