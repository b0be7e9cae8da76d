"""The records of a run: one JSON object a line, appended so that a crash loses at most the line being written."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from trainmark.runfolder.files import MAX_LINE_BYTES, Json, NotRegularError, can_decode, open_regular, read_blocks
from trainmark.runfolder.values import as_float, as_int, as_object, as_text

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


class Kind(StrEnum):
    RUN_START = "run_start"
    STEP = "step"
    EVAL = "eval"
    PHASE = "phase"
    COMMUNICATION = "communication"
    TELEMETRY = "telemetry"
    ENERGY = "energy"
    WARNING = "warning"
    RUN_END = "run_end"


class Evaluation(NamedTuple):
    step: int | None
    epoch: float | None
    time_s: float | None
    value: float | None
    metric: str | None

    @classmethod
    def from_json(cls, record: Json) -> Evaluation:
        epoch, time_s, value = (as_float(record.get(name)) for name in ("epoch", "time_s", "value"))
        return cls(as_int(record.get("step")), epoch, time_s, value, as_text(record.get("metric")))


class Phase(NamedTuple):
    """What is done beside steps: set-up, evaluation, a checkpoint, resuming."""

    name: str | None
    edge: str | None
    """`begin`, `progress` or `end`."""
    step: int | None
    seconds: float | None
    peak_memory_bytes: int | None

    @classmethod
    def from_json(cls, record: Json) -> Phase:
        name, edge = as_text(record.get("phase")), as_text(record.get("edge"))
        step, peak = as_int(record.get("step")), as_int(record.get("peak_memory_bytes"))
        return cls(name, edge, step, as_float(record.get("seconds")), peak)


class RecordedWarning(NamedTuple):
    code: str
    message: str
    """In English."""
    params: Json
    """Of the message; empty in folders of older versions."""

    @classmethod
    def from_json(cls, record: Json) -> RecordedWarning:
        code, message = (as_text(record.get(name)) or "" for name in ("code", "message"))
        return cls(code, message, as_object(record.get("params")))


class Communication(NamedTuple):
    """Times of steps with and without exchange of gradients, or the reason why there are none."""

    reason: str | None
    reason_code: str | None = None
    reason_params: Json | None = None
    pairs: tuple[tuple[float, float], ...] = ()
    """Seconds of a step and of the same step without exchange."""
    gradient_bytes: int = 0
    num_ranks: int = 0
    all_reduce_s: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, record: Json) -> Communication | None:
        """None for a record that holds neither times nor a reason."""
        reason = as_text(record.get("reason"))
        if reason is not None:
            code, params = as_text(record.get("reason_code")), as_object(record.get("reason_params"))
            return cls(reason[:_MAX_REASON], code, params)
        listed = record.get("pairs")
        pairs = [_durations(pair) for pair in listed[:_MAX_DURATIONS]] if isinstance(listed, list) else []
        num_bytes, num_ranks = as_int(record.get("gradient_bytes")) or 0, as_int(record.get("num_ranks")) or 0
        known = tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2)
        if not known or num_bytes <= 0 or num_ranks <= 0:
            return None
        return cls(
            None, pairs=known, gradient_bytes=num_bytes, num_ranks=num_ranks,
            all_reduce_s=_durations(record.get("all_reduce_s")),
        )  # fmt: skip

    def to_json(self) -> Json:
        """As the index keeps it."""
        if self.reason is not None:
            return {"reason": self.reason, "reason_code": self.reason_code, "reason_params": self.reason_params}
        return {
            "reason": None,
            "pairs": [list(pair) for pair in self.pairs],
            "gradient_bytes": self.gradient_bytes,
            "num_ranks": self.num_ranks,
            "all_reduce_s": list(self.all_reduce_s),
        }


_MAX_DURATIONS = 64
_MAX_REASON = 300
MIN_SECONDS, MAX_SECONDS = 1e-9, 1e9
"""Of anything that is timed: a duration outside is not a measurement, and a rate from it may not be finite."""


def _durations(value: Any) -> tuple[float, ...]:
    """Empty if any item of the list is not a sensible duration."""
    if not isinstance(value, list) or len(value) > _MAX_DURATIONS:
        return ()
    numbers = [
        number for item in value if (number := as_float(item)) is not None and MIN_SECONDS <= number < MAX_SECONDS
    ]
    return tuple(numbers) if len(numbers) == len(value) else ()


def encode_record(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace") + b"\n"


_decode = json.JSONDecoder().decode
"""`json.loads` of bytes guesses their encoding first, which takes a fifth of the time of a record."""


def decode_record(line: bytes) -> Json | None:
    """None for a torn or foreign line, which a kill or a full disk may leave."""
    if not can_decode(line):
        return None
    try:
        record = _decode(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("kind"), str) else None


def read_records(path: Path) -> Iterator[Json]:
    return itertools.chain.from_iterable(read_record_blocks(path))


def read_record_blocks(path: Path) -> Iterator[list[Json]]:
    """Many records at a time."""
    return map(_decode_block, read_blocks(path))


def _decode_block(block: bytes) -> list[Json]:
    """Together, which takes half of the time; line by line if any of them is not sound."""
    num_ends = block.count(b"\n")
    records: Any = None
    if can_decode(block) and block[:1] == b"{" and block[-1:] == b"}" and block.count(b"}\n{") == num_ends:
        with contextlib.suppress(ValueError, RecursionError):
            text = block.replace(b"\n", b",").decode("utf-8", "surrogatepass")
            records = _decode(f"[{text}]")
    if records is None or len(records) != num_ends + 1:
        records = map(decode_record, block.split(b"\n"))
    else:
        with contextlib.suppress(TypeError, KeyError):
            if {type(record["kind"]) for record in records} == {str}:
                return list(records)
    return [record for record in records if isinstance(record, dict) and isinstance(record.get("kind"), str)]


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
