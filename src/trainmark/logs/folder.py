"""Write an imported log as a run folder, with its source, dialect and SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from trainmark.logs.reading import ReadLog
from trainmark.logs.record import LogRecord
from trainmark.logs.spool import absent
from trainmark.messages.endings import imported
from trainmark.runfolder.document import CellRecord, LogFacts, Provenance, RunDocument
from trainmark.runfolder.ending import write_exit
from trainmark.runfolder.files import ENVIRONMENT_FILE, Json, rank_file, write_json
from trainmark.runfolder.records import Kind, Outcome, encode_record

_LINES = 4096


def run_id_of(name: str, sha256: str) -> str:
    """Readable and derived from the content, so that a second import finds the run."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", name.split(".")[0]).strip("-")[:32].lower()
    return f"log-{stem or 'x'}-{sha256[:12]}"


def write_run(log: ReadLog, store: Path, provenance: Provenance, *, target: Json | None = None) -> Path:
    """Whole or not at all: made under a hidden name, which readers ignore, and renamed when it is complete."""
    folder = store / run_id_of(log.path.name, log.sha256)
    beside = store / f".{folder.name}.{os.getpid()}"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        _write_records(log, beside / rank_file(0))
        _describe(log, provenance, target).write(beside)
        write_json(beside / ENVIRONMENT_FILE, _environment(log))
        reason = imported(path=str(log.path)).to_reason()
        write_exit(beside, {"outcome": Outcome.OK, **reason, "wall_s": wall_s(log)})
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return folder


def _describe(log: ReadLog, provenance: Provenance, target: Json | None) -> RunDocument:
    facts = log.facts
    began = log.gathered.first_time_s
    return RunDocument(
        cell=CellRecord(
            workload=facts.workload,
            framework=facts.framework,
            precision=facts.precision,
            nodes=facts.nodes,
            devices=facts.devices,
            batch_size_per_device=facts.batch_size_per_device,
            repeat=facts.repeat,
        ),
        cell_id=_cell_id(log),
        source=str(log.path),
        dialect=log.dialect.name,
        unit=_unit(log),
        model=facts.model,
        created_unix_s=began if began is not None else time.time(),
        log=LogFacts(
            confidence=log.confidence,
            scope=log.gathered.scope or log.dialect.scope,
            covers=log.dialect.covers,
            has_seconds=log.gathered.has_seconds,
            is_cumulative=log.dialect.is_cumulative,
            is_tf32_off=facts.is_tf32_off,
            stated={name: _stated(record) for name, record in sorted(log.gathered.stated.items())},
            target=target,
            time_to_target_s=_stated_time(log),
        ),
        provenance=provenance,
    )


def _stated_time(log: ReadLog) -> float | None:
    quality = log.gathered.moments.get("target_quality_time")
    return quality.value if quality is not None else None


def _stated(record: LogRecord) -> Json:
    return {"value": record.rate, "unit": record.unit}


def _unit(log: ReadLog) -> str:
    gathered = log.gathered
    if gathered.has_seconds and not (gathered.has_rates or gathered.has_samples or log.scale.global_batch):
        return "iterations"
    stated = log.facts.unit or log.gathered.unit
    return stated if stated not in (None, "samples") else log.dialect.unit


def _cell_id(log: ReadLog) -> str:
    """The same for logs of one measurement. A log that does not tell enough has one of its own."""
    facts = log.facts
    identity: Json = {
        "workload": facts.workload,
        "framework": facts.framework,
        "recipe": None,
        "precision": facts.precision,
        "nodes": facts.nodes,
        "devices": facts.devices,
        "batch_size_per_device": facts.batch_size_per_device,
        "model": facts.model,
        "dialect": log.dialect.name,
        "machine": facts.machine,
    }
    needed = ("model", "devices", "precision", "batch_size_per_device")
    if any(identity[name] is None for name in needed):
        identity["sha256"] = log.sha256
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode(errors="replace")).hexdigest()[:12]


def _environment(log: ReadLog) -> Json:
    return {"device_name": log.facts.machine, "framework": log.facts.framework}


def wall_s(log: ReadLog) -> float | None:
    """As stated in the log; else between test_begin and test_finish; else between the first and last record."""
    if log.facts.wall_s is not None:
        return log.facts.wall_s
    moments = log.gathered.moments
    begin, finish = (moments[name].time_s if name in moments else None for name in ("test_begin", "test_finish"))
    if begin is None or finish is None:
        begin, finish = log.gathered.first_time_s, log.gathered.last_time_s
    return finish - begin if begin is not None and finish is not None and finish > begin else None


# -- records -----------------------------------------------------------------------------------------------------------


def _write_records(log: ReadLog, path: Path) -> None:
    with path.open("wb") as file:
        lines: list[bytes] = [encode_record({"kind": Kind.RUN_START, "source": str(log.path)})]
        lines += [encode_record(record) for record in (*_warnings(log), *_evals(log))]
        for line in _steps(log):
            lines.append(line)
            if len(lines) >= _LINES:
                file.write(b"".join(lines))
                lines.clear()
        if log.gathered.peak_memory_bytes:
            peak = {"kind": Kind.PHASE, "phase": "train", "peak_memory_bytes": log.gathered.peak_memory_bytes}
            lines.append(encode_record(peak))
        lines.append(encode_record({"kind": Kind.RUN_END}))
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())


_STEP_LINE = (
    '{"kind":"%s","step":%s,"epoch":%s,"time_s":%s,"seconds":%s,"samples":%s,"num_steps":%s,"loss":%s,'
    '"printed_seconds":%s,"printed_rate":%s}\n'
)
"""Same result as `encode_record` in a quarter of the time: a log may have millions of records."""


def _steps(log: ReadLog) -> Iterator[bytes]:
    """Keep the printed values beside the global ones, so that they can be interpreted differently later."""
    origin = log.gathered.first_time_s
    covers_interval = log.dialect.covers == "interval" and not log.dialect.is_cumulative
    intervals = Intervals(covers_interval=covers_interval, first=_first_interval(log) if covers_interval else None)
    for is_trace, step, epoch, time_s, seconds, rate, samples, loss in log.gathered.spool.rows():
        where = (_whole(step), _text(epoch), _text(time_s - (origin or 0.0)))
        printed = (_text(seconds), _text(rate))
        if is_trace:
            empty = ("null", "null", "null", "null")
            yield (_STEP_LINE % (Kind.TELEMETRY, *where, *empty, *printed)).encode()
            continue
        num_steps = intervals.next(absent(step), absent(epoch))
        made = log.scale.convert(
            num_steps=num_steps, seconds=absent(seconds), rate=absent(rate), samples=absent(samples)
        )
        both = (_text(made[0]), _text(made[1])) if made else ("null", "null")
        yield (_STEP_LINE % (Kind.STEP, *where, *both, _text(num_steps), _text(loss), *printed)).encode()


def _first_interval(log: ReadLog) -> float | None:
    """Steps between the first two records of an epoch; a resumed run starts late but prints as often as before."""
    steps = ((row[1], absent(row[2])) for row in log.gathered.spool.rows() if not row[0] and absent(row[1]) is not None)
    first = next(steps, None)
    following = next((place for place in steps if place != first), None)
    if first is None or following is None or following[1] != first[1] or following[0] <= first[0]:
        return None
    return following[0] - first[0]


def _whole(value: float) -> str:
    return "null" if value != value else str(int(value))


def _text(value: float) -> str:
    return "null" if value != value else repr(float(value))


_MAX_FIRST = 1000.0


class Intervals:
    """Count the iterations that a record covers: those since the previous record of the same epoch."""

    def __init__(self, *, covers_interval: bool, first: float | None = None) -> None:
        """`first`: upper limit for the first record, if the next records are known."""
        self._covers_interval = covers_interval
        self._first = first if first is not None else _MAX_FIRST
        self._step: float | None = None
        self._epoch: float | None = None
        self._usual = 1.0

    def next(self, step: float | None, epoch: float | None) -> float:
        if not self._covers_interval or step is None:
            return 1.0
        before, self._step = self._step, step
        is_same = epoch == self._epoch
        self._epoch = epoch
        if before is None:
            # A resumed run starts late: its first record covers no more than `first`.
            self._usual = min(max(step, 1.0), self._first)
        elif step > before:
            self._usual = step - before
        elif not is_same or step < before:
            self._usual = max(step, 1.0)
        return self._usual


def _evals(log: ReadLog) -> Iterator[Json]:
    begin = log.gathered.moments.get("test_begin")
    for record in log.gathered.evals:
        # Compare each clock with its own start: AI-Rank's time stamps are UTC, those of other lines are local.
        is_protocol = record.metric == "eval_accuracy" or log.dialect.name == "mllog"
        origin = begin.time_s if begin is not None and is_protocol else log.gathered.first_time_s
        time_s = None if record.time_s is None or origin is None else record.time_s - origin
        where: Json = {"step": record.step, "epoch": record.epoch, "time_s": time_s}
        yield {"kind": Kind.EVAL, **where, "metric": record.metric, "value": record.value}


def _warnings(log: ReadLog) -> Iterator[Json]:
    for warning in log.warnings:
        yield {"kind": Kind.WARNING, **warning.to_json()}
