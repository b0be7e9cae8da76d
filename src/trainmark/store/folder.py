"""A run folder to a row. Any folder can be read: half-written, killed at any byte, or still running."""

from __future__ import annotations

import contextlib
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from trainmark.messages.endings import changed_after_end, died_after_last_step, file_damaged, no_end_record, unreadable
from trainmark.messages.message import Message
from trainmark.runfolder.acceptance import read_accepted
from trainmark.runfolder.document import CellRecord, RunDocument
from trainmark.runfolder.ending import ExitRecord, find_changed
from trainmark.runfolder.files import (
    COMMAND_FILE,
    ENVIRONMENT_FILE,
    EXIT_FILE,
    RUN_FILE,
    Json,
    rank_file,
    read_json,
)
from trainmark.runfolder.records import MAX_SECONDS, Outcome
from trainmark.runfolder.values import as_object, as_text
from trainmark.store.marked_steps import read_command
from trainmark.store.rank_records import RankRecords, no_steps, read_import, read_ranks
from trainmark.store.rows import RunRow
from trainmark.store.state import FoundEnding, read_ending, read_stamp, read_state, reading_version

_MAX_REASON = 300


def read_any_run(folder: Path) -> RunRow | None:
    """As `read_run`; a run that cannot be read becomes a failed one, so that it does not hide the others."""
    with contextlib.suppress(Exception):
        if (row := read_run(folder)) is not None:
            return row
    state = read_state(folder)  # before it is tried again: what changes from now on is seen next time
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
    """A run.json that describes no run, beside files of ours, or the end of a run without its beginning.

    A run.json alone may belong to another program.
    """
    if not os.path.lexists(folder / RUN_FILE):
        ending = ExitRecord.read(folder)
        return ending is not None and ending.seal is not None
    left = (rank_file(0), COMMAND_FILE, ENVIRONMENT_FILE, EXIT_FILE)
    return any(os.path.lexists(folder / name) for name in left)


def read_run(folder: Path) -> RunRow | None:
    """None if the folder has no run.json that describes a run."""
    stamp = read_stamp(folder)  # first: what changes while this is read is seen next time
    document = RunDocument.read(folder)
    if document is None:
        return None
    ending = read_ending(folder)
    environment = as_object(read_json(folder / ENVIRONMENT_FILE))
    recorded, warnings = _read_records(folder, document)
    facts = {
        **_facts(folder, document),
        **_shared(ending),
        **_shared(recorded),
        "devices": document.cell.num_devices,
        "environment": environment,
        "machine": _machine(document.cell, environment),
        "num_records": recorded.num_steps,
        "first_step_s": _first_step_s(document, recorded),
        "warnings": (*warnings, *_warn_of_changes(folder, document, ending, recorded)),
        "folder_state": ending.state,
        "folder_stamp": stamp,
        "accepted": read_accepted(folder),
    }
    return RunRow(**facts, load_steps=lambda: recorded.steps, reading_version=reading_version())


def _read_records(folder: Path, document: RunDocument) -> tuple[RankRecords, list[Json]]:
    """And the warnings, which may come from more files than the other records."""
    if _is_command(document):
        found = read_command(folder, document)
        return found, list(found.warnings)
    return read_import(folder) if document.provenance is not None else read_ranks(folder)


def _is_command(document: RunDocument) -> bool:
    return document.source == "command"


def _warn_of_changes(folder: Path, document: RunDocument, ending: FoundEnding, recorded: RankRecords) -> list[Json]:
    """A finished run does not change: what was added, removed or damaged since may have changed its numbers."""
    changed = find_changed(folder, ending.seal) if ending.seal is not None else []
    changed += [] if ending.is_whole else [EXIT_FILE]
    if changed:
        return [changed_after_end(files=changed).to_json()]
    if ending.outcome == Outcome.OK and not recorded.has_end and not _is_command(document):
        return [no_end_record(file=rank_file(0)).to_json()]
    if ending.outcome == Outcome.OK and ending.reason_code == died_after_last_step.code:
        return [Message.from_reason(vars(ending)).to_json()]
    return []


def _first_step_s(document: RunDocument, recorded: RankRecords) -> float | None:
    """None for a run on several machines, whose clocks may differ, and for one that went on from a checkpoint."""
    begin, end = document.created_unix_s, recorded.first_step_unix_s
    if begin is None or end is None or document.cell.nodes not in (None, 1) or document.resumed_from is not None:
        return None
    return end - begin if 0 <= end - begin <= MAX_SECONDS else None


def _machine(cell: CellRecord, environment: Json) -> str | None:
    """None for a run on accelerators that ended before it saw one: it does not measure the processor of the host."""
    is_on_host = cell.device in (None, "cpu")
    return as_text(environment.get("device_name")) or (as_text(environment.get("cpu")) if is_on_host else None)


def _facts(folder: Path, document: RunDocument) -> dict[str, Any]:
    """What run.json says."""
    return {
        **_shared(document),
        **_shared(document.cell),
        "id": folder.name,
        "source": document.source or "trainmark",
        "started_unix_s": document.created_unix_s,
        "until_target": dict(document.cell.until_target or {}),
        "log": _log_facts(document),
        "witness": _witness(document),
        "witnesses": document.witnesses or {},
    }


def _witness(document: RunDocument) -> str | None:
    """Folders of older versions do not name it; then marks or a log were the only ones."""
    is_from_log = document.source is not None and document.dialect is not None
    return document.witness or ((document.dialect if document.dialect == "mark" else "log") if is_from_log else None)


_ROW = {field.name for field in fields(RunRow)}


def _shared(part: RunDocument | CellRecord | RankRecords | FoundEnding) -> dict[str, Any]:
    """The fields that a row has under the same name, so that a new one needs no line here."""
    return {field.name: getattr(part, field.name) for field in fields(part) if field.name in _ROW}


def _log_facts(document: RunDocument) -> Json:
    if document.log is None:
        return {}
    sha256 = document.provenance.sha256 if document.provenance is not None else None
    return {**document.log.to_json(), "sha256": sha256}


def _explain(error: Exception) -> Message:
    file = Path(str(error.filename)).name if isinstance(error, OSError) and error.filename else None
    why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return unreadable(file=as_text(file), why=(as_text(why) or "")[:_MAX_REASON])


def _describe_unreadable(folder: Path, state: str, why: Message) -> RunRow:
    """With what run.json says about the cell, if that can be read."""
    document = RunDocument.read(folder) or RunDocument(cell=CellRecord())
    facts = {**_facts(folder, document), **why.to_reason(), "devices": None, "outcome": str(Outcome.FAILED)}
    return RunRow(**facts, wall_s=None, load_steps=no_steps, folder_state=state, reading_version=reading_version())
