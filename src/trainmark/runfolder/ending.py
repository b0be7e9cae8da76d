"""exit.json as a type: how a run ended, and the seal of the files that its results are read from.

The seal holds size and SHA-256 of run.json, command.json, env.json, log.jsonl, steps.npy and all files with records of
ranks, as they were when exit.json was written, and the SHA-256 of exit.json itself without it. Other files may still
change: batch systems append to output.log, checkpoints are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from trainmark.runfolder.files import (
    COMMAND_FILE,
    ENVIRONMENT_FILE,
    EXIT_FILE,
    LOG_FILE,
    RUN_FILE,
    SCHEMA,
    STEPS_FILE,
    Json,
    is_observed_file,
    observed_files,
    open_regular,
    rank_files,
    rank_of,
    read_json,
    write_json,
)
from trainmark.runfolder.records import Outcome
from trainmark.runfolder.values import as_float, as_int, as_object, as_text

_NAMES = (RUN_FILE, COMMAND_FILE, ENVIRONMENT_FILE, LOG_FILE, STEPS_FILE)
"""And the rank files and observed files."""
_OWN_DIGEST = "sha256"


class SealedFile(NamedTuple):
    num_bytes: int
    sha256: str


Seal = Mapping[str, SealedFile]
"""By file name."""


@dataclass(frozen=True, kw_only=True)
class ExitRecord:
    outcome: Outcome
    """FAILED for one that this version does not know."""
    reason: str
    reason_code: str | None
    reason_params: Json
    look_at: str | None
    """The file of the run folder that says more."""
    wall_s: float | None
    seal: Seal | None
    """None in folders of older versions."""
    is_whole: bool
    """Whether the file is as it was written; of older versions nobody can say, so it is taken as whole."""

    @classmethod
    def read(cls, folder: Path) -> ExitRecord | None:
        value = read_json(folder / EXIT_FILE)
        if value is None:
            return None
        outcome = as_text(value.get("outcome"))
        has_digest = _OWN_DIGEST in value
        return cls(
            outcome=Outcome(outcome) if outcome in set(Outcome) else Outcome.FAILED,
            reason=as_text(value.get("reason")) or "",
            reason_code=as_text(value.get("reason_code")),
            reason_params=as_object(value.get("reason_params")),
            look_at=as_text(value.get("look_at")),
            wall_s=as_float(value.get("wall_s")),
            seal=_read_seal(value.get("files"), knows_steps=has_digest),
            is_whole=not has_digest or value[_OWN_DIGEST] == _digest_of(value),
        )


def write_exit(folder: Path, document: Mapping[str, Any]) -> None:
    """The last file of a run: everything else is written before, and its seal is added here."""
    files = {name: sealed._asdict() for name, sealed in _seal(folder).items()}
    sealed = {"schema": SCHEMA, **document, "files": files}
    write_json(folder / EXIT_FILE, {**sealed, _OWN_DIGEST: _digest_of(sealed)})


def _digest_of(document: Mapping[str, Any]) -> str:
    others = {name: value for name, value in document.items() if name != _OWN_DIGEST}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def find_changed(folder: Path, seal: Seal) -> list[str]:
    """The sealed files that are not as they were, and rank files that were not there. Hashed only if sizes agree."""
    present = {name for name in _sealed_names(folder) if seal.get(name) != _UNSEALED}
    seal = {name: sealed for name, sealed in seal.items() if sealed != _UNSEALED}
    changed = present ^ set(seal)
    return sorted(changed | {name for name in present & set(seal) if _is_changed(folder / name, seal[name])})


def _is_changed(path: Path, sealed: SealedFile) -> bool:
    try:
        return path.stat().st_size != sealed.num_bytes or _digest(path) != sealed
    except OSError:  # it vanished or cannot be read any more
        return True


def _seal(folder: Path) -> Seal:
    """A file that cannot be read is left out: the end of the run must be written in any case."""
    found = {}
    for name in _sealed_names(folder):
        with contextlib.suppress(OSError):
            found[name] = _digest(folder / name)
    return found


def _sealed_names(folder: Path) -> Iterator[str]:
    paths = [*(folder / name for name in _NAMES), *rank_files(folder), *observed_files(folder)]
    return (path.name for path in paths if path.is_file())


def _digest(path: Path) -> SealedFile:
    with open_regular(path) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return SealedFile(file.tell(), sha256)


_UNSEALED = SealedFile(-1, "")


def _read_seal(value: Any, *, knows_steps: bool) -> Seal | None:
    """An invalid entry matches no file, so that it shows as a change; names that are never sealed are ignored.

    The first seals did not cover the steps of imported logs.
    """
    if not isinstance(value, dict):
        return None
    entries = {name: as_object(entry) for name, entry in value.items() if _is_sealed(name)}
    exempt = {} if knows_steps else {STEPS_FILE: _UNSEALED}
    return exempt | {
        name: SealedFile(as_int(entry.get("num_bytes")) or 0, as_text(entry.get("sha256")) or "")
        for name, entry in entries.items()
    }


def _is_sealed(name: str) -> bool:
    return name in _NAMES or rank_of(name) is not None or is_observed_file(name)
