"""The records of a run: one JSON object a line, appended so that a crash loses at most the line being written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from trainmark.runfolder.files import MAX_LINE_BYTES, Json, NotRegularError, open_regular, read_lines

RUN_TAG = "TRAINMARK_RUN"
"""In the environment of every process of a run, so that clean-up can find all of them and only them."""
PREFLIGHT_SIGN = "TRAINMARK_PREFLIGHT "
"""Before the answer of a machine in its output, which a launcher may put its own tag in front of."""


class Outcome(StrEnum):
    OK = "ok"
    OUT_OF_MEMORY = "oom"
    NAN = "nan"
    HANG = "hang"
    KILLED = "killed"
    FAILED = "failed"
    TIMEOUT = "timeout"


class WarningCode(StrEnum):
    """Warnings that a worker or its controller writes during a run, except those of `worker.telemetry.isolation`."""

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
    for line in read_lines(path):
        record = decode_record(line)
        if record is not None:
            yield record


class RecordTail:
    """Reads the complete lines that were appended since the last look, for progress and the stopping rule."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read_new(self) -> list[Json]:
        found: list[Json] = []
        try:
            with open_regular(self._path) as file:
                file.seek(self._offset)
                while chunk := file.read(MAX_LINE_BYTES):
                    is_full = len(chunk) == MAX_LINE_BYTES
                    end = chunk.rfind(b"\n") + 1 or (len(chunk) if is_full else 0)
                    decoded = (decode_record(line) for line in chunk[:end].splitlines())
                    found += [record for record in decoded if record is not None]
                    self._offset += end
                    if not is_full:
                        break
                    file.seek(self._offset)
        except (FileNotFoundError, NotRegularError):
            return []
        return found
