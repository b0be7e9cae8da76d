"""Write an imported log as a run folder, with its source, dialect and SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainmark.logs.noise import FIRST_KNOWN_S
from trainmark.logs.rate_summary import RateSums, summarise_rates
from trainmark.logs.reading import ReadLog
from trainmark.logs.record import LogRecord
from trainmark.logs.scale import name_unit
from trainmark.logs.step_writing import write_steps
from trainmark.messages.endings import imported
from trainmark.messages.message import Message
from trainmark.runfolder.document import CellRecord, LogFacts, Provenance, RunDocument
from trainmark.runfolder.ending import write_exit
from trainmark.runfolder.files import ENVIRONMENT_FILE, STEPS_FILE, Json, rank_file, write_json
from trainmark.runfolder.records import Kind, Outcome, encode_record


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
        rates = RateSums()
        warnings = write_steps(log, beside / STEPS_FILE, rates)
        _write_records(log, beside / rank_file(0), warnings)
        summary = summarise_rates(beside / STEPS_FILE, rates)
        _describe(log, provenance, target, summary).write(beside)
        write_json(beside / ENVIRONMENT_FILE, _environment(log))
        reason = imported(path=str(log.path)).to_reason()
        write_exit(beside, {"outcome": Outcome.OK, **reason, "wall_s": wall_s(log)})
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return folder


def _describe(log: ReadLog, provenance: Provenance, target: Json | None, rates: Json | None) -> RunDocument:
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
        created_unix_s=began if began is not None and began >= FIRST_KNOWN_S else time.time(),
        log=LogFacts(
            confidence=log.confidence,
            scope=log.gathered.scope or log.dialect.scope,
            covers=log.dialect.covers,
            meaning=log.dialect.meaning,
            basis=log.basis,
            is_generic=log.dialect.is_generic,
            rates=rates,
            has_seconds=log.gathered.has_seconds or log.gathered.has_totals,
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
    return name_unit(
        log.dialect,
        log.facts,
        log.scale,
        gathered.unit,
        has_rates=gathered.has_rates,
        has_seconds=gathered.has_seconds or gathered.has_totals,
        has_samples=gathered.has_samples,
    )


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


def _write_records(log: ReadLog, path: Path, warnings: Sequence[Message]) -> None:
    """Everything but the steps, which have a table of their own."""
    records: list[Json] = [{"kind": Kind.RUN_START, "source": str(log.path)}]
    records += [{"kind": Kind.WARNING, **warning.to_json()} for warning in (*log.warnings, *warnings)]
    records += _evals(log)
    if log.gathered.peak_memory_bytes:
        peak = log.gathered.peak_memory_bytes
        records.append({"kind": Kind.PHASE, "phase": "train", "peak_memory_bytes": peak})
    records.append({"kind": Kind.RUN_END})
    with path.open("wb") as file:
        file.write(b"".join(encode_record(record) for record in records))
        file.flush()
        os.fsync(file.fileno())


def _evals(log: ReadLog) -> Iterator[Json]:
    begin = log.gathered.moments.get("test_begin")
    for record in log.gathered.evals:
        # Compare each clock with its own start: AI-Rank's time stamps are UTC, those of other lines are local.
        is_protocol = record.metric == "eval_accuracy" or log.dialect.name == "mllog"
        origin = begin.time_s if begin is not None and is_protocol else log.gathered.first_time_s
        time_s = None if record.time_s is None or origin is None else record.time_s - origin
        where: Json = {"step": record.step, "epoch": record.epoch, "time_s": time_s}
        yield {"kind": Kind.EVAL, **where, "metric": record.metric, "value": record.value}
