"""Import one file into the store (in a worker process), and find what earlier imports left there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from trainmark.errors import TrainmarkError
from trainmark.freed_memory import keep_freed_memory
from trainmark.logs.folder import write_run
from trainmark.logs.opening import LogFile, digest_of
from trainmark.logs.paths import facts_of_path
from trainmark.logs.pattern import load_pattern
from trainmark.logs.reading import read_log
from trainmark.logs.record import Facts
from trainmark.logs.registry import load_dialects
from trainmark.runfolder.document import Provenance, RunDocument

READER = 5
"""Increase it when the same file would now be read differently, so that the next import reads it again."""

NO_DIALECT = "no line in a known log format"
IMPORT_ITS_LOGS = "import the logs that it was made from"


@dataclass(frozen=True, kw_only=True)
class Task:
    path: Path
    store: Path
    given: Facts
    pattern: Path | None
    targets: Mapping[str, Mapping[str, Any]]
    """Target metric and value of each built-in workload, by name."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    path: str
    run_id: str | None
    """None if the file was not imported; see `reason`."""
    reason: str | None = None
    is_failure: bool = False
    """The file could not be read. False: it was read and is not a log."""
    sha256: str | None = None
    """None if the run was already in the store."""


def import_file(task: Task) -> Imported:
    keep_freed_memory()
    name = str(task.path)
    own = (load_pattern(task.pattern),) if task.pattern is not None else ()
    file = LogFile(task.path)
    try:
        log = read_log(file, (*own, *load_dialects()), given=task.given)
    except OSError as error:
        return Imported(path=name, run_id=None, reason=error.strerror or str(error), is_failure=True)
    if log is None:
        return Imported(path=name, run_id=None, reason=_why_no_log(file))
    if log.facts.workload not in task.targets:
        log = replace(log, facts=replace(log.facts, workload=None))
    try:
        target = task.targets.get(log.facts.workload or "")
        provenance = _provenance(task, log.sha256, log.num_bytes)
        folder = write_run(log, task.store, provenance, target=dict(target) if target else None)
    except (OSError, TrainmarkError) as error:
        return Imported(path=name, run_id=None, reason=str(error), is_failure=True)
    finally:
        log.gathered.spool.close()
    return Imported(path=name, run_id=folder.name, sha256=log.sha256)


def _why_no_log(file: LogFile) -> str:
    if file.num_bytes == 0:
        return "the file is empty"
    if file.document is not None:
        return f"{file.document}, not a log; {IMPORT_ITS_LOGS}"
    if file.is_damaged:
        return f"the file is cut short in its compressed data, and before that stands {NO_DIALECT}"
    return NO_DIALECT


def _provenance(task: Task, sha256: str, num_bytes: int) -> Provenance:
    pattern = digest_of(task.pattern) if task.pattern is not None else None
    return Provenance(sha256=sha256, num_bytes=num_bytes, reader=READER, given=task.given.known(), pattern=pattern)


class KnownLogs:
    """Imported logs that are already in a store, by content."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._by_digest: dict[str, dict[str, RunDocument]] = {}
        self._sizes: set[int] = set()
        for folder in sorted(store.glob("log-*")) if store.is_dir() else ():
            run = RunDocument.read(folder)
            if run is not None and run.provenance is not None:
                self._by_digest.setdefault(run.provenance.sha256, {})[folder.name] = run
                self._sizes.add(run.provenance.num_bytes)

    def find(self, task: Task, num_bytes: int) -> str | None:
        """The run that this very content became with the same options; the file is read only if the size is known.

        A file may be moved or renamed, but where its new name tells other facts it is read again.
        """
        if num_bytes not in self._sizes:
            return None
        sha256 = digest_of(task.path)
        wanted = _provenance(task, sha256, num_bytes)
        for run_id, run in self._by_digest.get(sha256, {}).items():
            is_same_place = facts_of_path(PurePath(str(run.source))) == facts_of_path(task.path)
            if is_same_place and run.provenance == wanted:
                return run_id
        return None

    def drop_older(self, imported: Imported) -> list[str]:
        """Remove older runs of the same content, now that the new one is complete. Returns their ids."""
        if imported.run_id is None or imported.sha256 is None:
            return []
        older = [run_id for run_id in self._by_digest.get(imported.sha256, {}) if run_id != imported.run_id]
        for run_id in older:
            shutil.rmtree(self._store / run_id, ignore_errors=True)
        return [run_id for run_id in older if not (self._store / run_id).exists()]
