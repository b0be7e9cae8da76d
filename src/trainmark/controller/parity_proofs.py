"""The parity checks of stores, parted into those of today's code and those of other code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainmark.analyse.parity_verdict import Proofs
from trainmark.controller.parity_code import code_digest
from trainmark.errors import TrainmarkError
from trainmark.runfolder.parity import ParityRecord, read_parity


def read_proofs(stores: Iterable[Path]) -> Proofs:
    records = [record for store in dict.fromkeys(stores) for record in read_parity(store)]
    records.sort(key=lambda record: -record.unix_s)
    return Proofs(
        current=[record for record in records if _is_current(record)],
        outdated=[record for record in records if not _is_current(record)],
    )


def _is_current(record: ParityRecord) -> bool:
    names = {side.framework for pair in record.pairs for side in (pair.one, pair.other)}
    try:
        return code_digest(record.workload, sorted(names)) == record.code
    except (TrainmarkError, ImportError, OSError):
        return False  # a workload that is not installed here
