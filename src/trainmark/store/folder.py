"""A run folder to a row. Any folder can be read: half-written, killed at any byte, or still running."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.messages.endings import file_damaged, unreadable
from trainmark.messages.message import Message
from trainmark.runfolder.files import (
    COMMAND_FILE,
    ENVIRONMENT_FILE,
    EXIT_FILE,
    LOG_FILE,
    RUN_FILE,
    Json,
    rank_file,
    read_json,
)
from trainmark.runfolder.records import Kind, Outcome, decode_record, read_records
from trainmark.runfolder.values import as_object, as_text
from trainmark.store.communication import read_communication
from trainmark.store.ending import read_ending, read_state
from trainmark.store.marks import add_up
from trainmark.store.rows import RunRow, Steps
from trainmark.store.version import reading_version

_COLUMNS = ("seconds", "samples", "steps", "times", "loss_steps", "losses")
_LEAST_S, _MOST_S, _MOST_SAMPLES = 1e-9, 1e9, 1e15
"""Of a step: what lies outside is no measurement, and its speed may be no number."""

_MAX_REASON = 300
_CELL_TEXT = ("workload", "framework", "recipe", "precision", "size", "device", "data")
_CELL_WHOLE = ("nodes", "batch_size_per_device", "epochs", "seed", "repeat")


def read_any_run(folder: Path) -> RunRow | None:
    """The same, and a run that cannot be read is a failed one that says so: it must not hide those beside it."""
    state = read_state(folder)
    try:
        row = read_run(folder)
        if row is None and _was_ours(folder):
            return _describe_unreadable(folder, state, unreadable(file=None, why=file_damaged(file=RUN_FILE)))
    except Exception as error:
        if not (folder / RUN_FILE).exists():
            return None
        return _describe_unreadable(folder, state, _explain(error))
    return row


def _was_ours(folder: Path) -> bool:
    """A run.json that tells of no run, beside what only a run of ours leaves: others have files of that name too."""
    left = (rank_file(0), COMMAND_FILE, ENVIRONMENT_FILE, EXIT_FILE)
    return (folder / RUN_FILE).exists() and any((folder / name).exists() for name in left)


def read_run(folder: Path) -> RunRow | None:
    """None where the folder holds no run.json: not ours."""
    run = read_json(folder / RUN_FILE)
    if run is None or not isinstance(run.get("cell"), dict):
        return None
    cell: Json = run["cell"]
    ending = read_ending(folder, read_state(folder))
    environment = _keep(read_json(folder / ENVIRONMENT_FILE))
    nodes, per_node = _whole(cell.get("nodes")), _whole(cell.get("devices_per_node"))
    is_command = run.get("source") == "command"
    found = _read_command(folder) if is_command else _read_ranks(folder)
    steps = Steps(**{name: found.pop(name) for name in _COLUMNS})
    return RunRow(
        **_read_facts(folder, run),
        workload=_text(cell.get("workload")),
        framework=_text(cell.get("framework")),
        recipe=_text(cell.get("recipe")),
        precision=_text(cell.get("precision")),
        size=_text(cell.get("size")),
        device=_text(cell.get("device")),
        nodes=nodes,
        devices=_whole(nodes * per_node if nodes and per_node else cell.get("devices")),
        batch_size_per_device=_whole(cell.get("batch_size_per_device")),
        data=_text(cell.get("data")),
        epochs=_whole(cell.get("epochs")),
        lr=_number(cell.get("lr")),
        until_target=_read_targets(cell),
        resumed_from=_text(run.get("resumed_from")),
        retry_of=_text(run.get("retry_of")),
        seed=_whole(cell.get("seed")),
        repeat=_whole(cell.get("repeat")),
        outcome=ending["outcome"],
        reason=_text(ending["reason"]) or "",
        reason_code=_text(ending["reason_code"]),
        reason_params=as_object(ending["reason_params"]),
        wall_s=_number(ending.get("wall_s")),
        environment=environment,
        log=_read_log_facts(run),
        machine=_read_machine(cell, environment),
        load_steps=lambda: steps,
        folder_state=ending["state"],
        reading_version=reading_version(),
        **found,
    )


def _read_machine(cell: Json, environment: Json) -> str | None:
    """None where a run on accelerators ended before it saw one: the host's processor is not what was to be measured."""
    is_on_host = cell.get("device") in (None, "cpu")
    return _text(environment.get("device_name")) or (_text(environment.get("cpu")) if is_on_host else None)


def _read_facts(folder: Path, run: Json) -> dict[str, Any]:
    """What run.json says of the run itself, beside its cell."""
    return {
        "id": folder.name,
        "cell_id": _text(run.get("cell_id")) or "",
        "suite": _text(run.get("suite")),
        "source": _text(run.get("source")) or "trainmark",
        "dialect": _text(run.get("dialect")),
        "model": _text(run.get("model")),
        "unit": _text(run.get("unit")) or "samples",
        "started_unix_s": _number(run.get("created_unix_s")),
        "asked": _text(run.get("asked")),
        "sweep": _text(run.get("sweep")),
        "attempt": _whole(run.get("attempt")),
        "purpose": _text(run.get("purpose")),
    }


def _explain(error: Exception) -> Message:
    file = Path(str(error.filename)).name if isinstance(error, OSError) and error.filename else None
    why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return unreadable(file=as_text(file), why=(as_text(why) or "")[:_MAX_REASON])


def _describe_unreadable(folder: Path, state: str, why: Message) -> RunRow:
    """What run.json says of the cell is kept where that can be read."""
    run = read_json(folder / RUN_FILE) or {}
    known = run["cell"] if isinstance(run.get("cell"), dict) else {}
    nothing = Steps(**{name: np.empty(0) for name in _COLUMNS})
    cell: Json = {name: _text(known.get(name)) for name in _CELL_TEXT} | {
        name: _whole(known.get(name)) for name in _CELL_WHOLE
    }
    return RunRow(
        **_read_facts(folder, run),
        devices=None,
        outcome=str(Outcome.FAILED),
        **why.to_reason(),
        wall_s=None,
        load_steps=lambda: nothing,
        folder_state=state,
        reading_version=reading_version(),
        **cell,
    )


def _text(value: Any) -> str | None:
    """Only text, and only what can be written down again: a folder may come from a stranger."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else None


def _keep(value: Any) -> Json:
    """An object as it came, with nothing in it that cannot be written down again, be computed with or be printed."""
    try:
        text = json.dumps(value or {}, ensure_ascii=False).encode(errors="replace")
        kept = json.loads(text, parse_int=lambda digits: _whole(int(digits)), parse_constant=lambda _: None)
    except RecursionError:
        return {}
    return kept if isinstance(kept, dict) else {}


def _whole(value: Any) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if fits else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    return float(value) if is_number else None


def _read_targets(cell: Json) -> dict[str, float]:
    targets = cell.get("until_target")
    known = {name: _number(value) for name, value in _keep(targets).items()}
    return {name: value for name, value in known.items() if value is not None}


def _read_log_facts(run: Json) -> Json:
    log = run.get("log")
    return {**_keep(log), "sha256": _text(run.get("sha256"))} if isinstance(log, dict) else {}


def _read_ranks(folder: Path) -> dict[str, Any]:
    """Rank 0 tells it all but what disturbed the others: a hot GPU slows all down, whichever rank has it."""
    first = folder / rank_file(0)
    found = _read_records(first)
    others = [warning for path in sorted({*folder.glob("rank*.jsonl")} - {first}) for warning in _read_warnings(path)]
    once = {(warning["code"], warning["message"]): warning for warning in (*found["warnings"], *others)}
    return {**found, "warnings": tuple(once.values()) if others else found["warnings"]}


def _read_warnings(path: Path) -> list[Json]:
    """Without decoding the steps: a run may have hundreds of ranks."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        decoded = [decode_record(line) for line in file if b'"warning"' in line]
    return [_read_warning(record) for record in decoded if record is not None and record["kind"] == Kind.WARNING]


def _read_warning(record: Json) -> Json:
    texts = {key: _text(record.get(key)) or "" for key in ("code", "message")}
    return {**texts, "params": as_object(record.get("params"))}


def _read_records(path: Path, *, is_marked: bool = False) -> dict[str, Any]:
    steps = _Steps(read=_read_mark if is_marked else _read_step)
    evals: list[Json] = []
    warnings: list[Json] = []
    pauses: dict[str, float] = {}
    resumed_steps: list[int] = []
    peak: int | None = None
    communication: Json | None = None
    for record in read_records(path):
        kind = record["kind"]
        if kind == Kind.STEP:
            steps.add(record)
        elif kind == Kind.EVAL:
            evals.append(_read_eval(record))
        elif kind == Kind.WARNING:
            warnings.append(_read_warning(record))
        elif kind == Kind.COMMUNICATION:
            communication = read_communication(record)
        elif kind == Kind.PHASE:
            peak = _whole(record.get("peak_memory_bytes")) or peak
            phase, seconds = _text(record.get("phase")), _number(record.get("seconds"))
            if phase in ("eval", "checkpoint") and seconds is not None and 0 <= seconds <= _MOST_S:
                pauses[phase] = pauses.get(phase, 0.0) + seconds
            if phase == "resume" and (step := _whole(record.get("step"))) is not None:
                resumed_steps.append(step)
    return {
        **steps.arrays(),
        "evals": tuple(evals),
        "warnings": tuple(warnings),
        "pauses": pauses,
        "resumed_steps": tuple(resumed_steps),
        "peak_memory_bytes": peak,
        "communication": communication,
    }


class _Steps:
    """Columns of doubles, eight bytes a number: a log may have millions of records."""

    def __init__(self, *, read: Callable[[Json], tuple[float, float] | None]) -> None:
        self._num = 0
        self._read = read
        self._columns = {name: array("d") for name in _COLUMNS}

    def add(self, record: Json) -> None:
        self._num += 1
        columns = self._columns
        number, loss = _number(record.get("step")), _number(record.get("loss"))
        step = self._read(record)
        if step is not None:
            columns["seconds"].append(step[0])
            columns["samples"].append(step[1])
            columns["steps"].append(math.nan if number is None else number)
            time_s = _number(record.get("time_s"))
            columns["times"].append(math.nan if time_s is None else time_s)
        if loss is not None:
            columns["loss_steps"].append(self._num if number is None else number)
            columns["losses"].append(loss)

    def arrays(self) -> dict[str, Any]:
        found = {name: np.frombuffer(column, dtype=np.float64) for name, column in self._columns.items() if column}
        empty = {name: np.empty(0) for name, column in self._columns.items() if not column}
        return {**found, **empty, "num_records": self._num}


def _read_command(folder: Path) -> dict[str, Any]:
    """A command's marks where it made some, each process its own; otherwise what was read from its output."""
    printed = _read_records(folder / LOG_FILE)
    marked = [_read_records(path, is_marked=True) for path in sorted(folder.glob("rank*.jsonl"))]
    marked = [found for found in marked if (found["samples"] > 0).any()]
    if not marked:
        return printed
    evals = next((found["evals"] for found in marked if found["evals"]), printed["evals"])
    return {**add_up(marked), "evals": evals}


def _read_eval(record: Json) -> Json:
    numbers = {key: _number(record.get(key)) for key in ("epoch", "time_s", "value")}
    return {"step": _whole(record.get("step")), **numbers, "metric": _text(record.get("metric"))}


def _read_step(record: Json) -> tuple[float, float] | None:
    """Seconds and samples; None for a record that is not as the worker writes it."""
    seconds, samples = _number(record.get("seconds")), _number(record.get("samples"))
    if seconds is None or samples is None:
        return None
    return (seconds, samples) if _LEAST_S <= seconds <= _MOST_S and 0 < samples <= _MOST_SAMPLES else None


def _read_mark(record: Json) -> tuple[float, float]:
    """Every mark keeps its place among those of other processes, with nan for what is no number."""
    seconds, samples = _number(record.get("seconds")), _number(record.get("samples"))
    return (
        seconds if seconds is not None and _LEAST_S <= seconds <= _MOST_S else math.nan,
        samples if samples is not None and 0 <= samples <= _MOST_SAMPLES else math.nan,
    )
