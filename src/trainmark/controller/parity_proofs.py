"""The parity checks of stores: kept, and read as those of the installed check and those of other versions of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from trainmark.analyse.identity import framework_version
from trainmark.analyse.parity_verdict import Proofs, code_of
from trainmark.controller.parity_code import check_code
from trainmark.errors import TrainmarkError
from trainmark.frameworks import frameworks
from trainmark.redaction import Redactor
from trainmark.runfolder.parity import Contestant, ParityRecord, read_parity, write_parity
from trainmark.store.rows import RunRow
from trainmark.worker.training_code import training_code


def keep_proof(store: Path, record: ParityRecord) -> tuple[ParityRecord, Path]:
    """What was written: with secrets replaced as in the env.json of a run of this store, to compare the two."""
    kept = replace(record, variables=Redactor(store).variables(record.variables))
    return kept, write_parity(store, kept)


def read_proofs(stores: Iterable[Path], *, store: str | None = None) -> Proofs:
    """`store`: where a check that is missing would be kept, if not in the default one."""
    records = [record for store in dict.fromkeys(stores) for record in read_parity(store)]
    records.sort(key=lambda record: -record.unix_s)
    return Proofs(
        current=[record for record in records if _is_current(record)],
        outdated=[record for record in records if not _is_current(record)],
        is_other=_is_other,
        store=store,
    )


def is_installed(workload: str, side: Contestant) -> bool:
    """Whether one side of a proof is of today's code and framework."""
    return not _differs(workload, side.framework, code=side.code, version=side.version)


def _is_current(record: ParityRecord) -> bool:
    names = {side.framework for pair in record.pairs for side in (pair.one, pair.other)}
    try:
        return check_code(names) == record.code
    except (TrainmarkError, ImportError, OSError):
        return False  # a framework of a plugin that is not installed here


def _is_other(row: RunRow) -> bool:
    return _differs(str(row.workload), str(row.framework), code=code_of(row), version=framework_version(row))


def _differs(workload: str, framework: str, *, code: str | None, version: str | None) -> bool:
    """From what is installed. Where that is not known, the check may be run elsewhere: then no."""
    try:
        installed, own_code = frameworks().load(framework).installed_version(), training_code(workload, framework)
    except (TrainmarkError, ImportError, OSError):
        return False
    if installed is None:
        return False
    # A framework may add how it was built to its version, such as +cu128, where its package does not.
    number = (version or "").removeprefix(framework).strip().partition("+")[0]
    return code != own_code or (installed != "unknown" and number != installed.partition("+")[0])
