"""Whether two runs of different frameworks may be compared: only where a parity check has shown that they are equal.

A check counts for the versions it was made with: of the workload's card, of both frameworks, and of trainmark's code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainmark.analyse.identity import framework_version
from trainmark.messages.comparison import not_proven_equal
from trainmark.messages.message import Message
from trainmark.messages.parity import parity_not_checked, parity_outdated, parity_stage_failed, parity_stage_missing
from trainmark.runfolder.parity import (
    MATHEMATICS,
    ROUNDING,
    TRAJECTORY,
    WORK,
    Contestant,
    PairRecord,
    ParityRecord,
    StageRecord,
)
from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Proofs:
    """The parity checks of a store, the newest first."""

    current: Sequence[ParityRecord] = ()
    outdated: Sequence[ParityRecord] = ()
    """Of other code of trainmark than this."""


NOTHING_PROVEN = Proofs()


def why_not_equal(one: RunRow, other: RunRow, proofs: Proofs) -> Message | None:
    """None if the two are proven equal."""
    if one.workload is None or one.workload != other.workload or {one.source, other.source} != {"trainmark"}:
        return not_proven_equal(one=one.framework, other=other.framework)
    names = {"one": str(one.framework), "other": str(other.framework)}
    command = parity_command(one, other)
    pairs = list(_matching(proofs.current, one, other))
    if not pairs:
        if any(_matching(proofs.outdated, one, other)):
            return parity_outdated(**names, what="version of trainmark's code", command=command)
        return parity_not_checked(**names, command=command)
    same = [pair for pair in pairs if _has_versions(pair, one, other)]
    if not same:
        return parity_outdated(**names, what="version of a framework", command=command)
    for stage, precision in _required(one, other):
        found = _newest(same, stage, precision)
        if found is None:
            wanted = f"{stage} in {precision}" if stage == ROUNDING else stage
            return parity_stage_missing(**names, stage=wanted, command=command)
        if not found.holds:
            return parity_stage_failed(**names, stage=stage, worst=found.worst, command=command)
    return None


def parity_command(one: RunRow, other: RunRow) -> str:
    names = ",".join(dict.fromkeys(("torch", str(one.framework), str(other.framework))))
    recipes = {row.recipe for row in (one, other)} - {"reference", None}
    recipe = f" --recipe {recipes.pop()}" if len(recipes) == 1 else ""
    precisions = dict.fromkeys(row.precision for row in (one, other) if row.precision)
    is_usual = set(precisions) <= {"fp32", "bf16"}
    precision = "" if is_usual else f" --precision {','.join(precisions)}"
    return f"trainmark parity {one.workload} --frameworks {names}{recipe}{precision}"


def _required(one: RunRow, other: RunRow) -> list[tuple[str, str | None]]:
    rounding = [(ROUNDING, precision) for precision in dict.fromkeys((one.precision, other.precision))]
    return [(MATHEMATICS, None), *rounding, (TRAJECTORY, None), (WORK, None)]


def _matching(records: Sequence[ParityRecord], one: RunRow, other: RunRow) -> Iterator[PairRecord]:
    """In the order of the rows."""
    wanted = {(row.framework, row.recipe) for row in (one, other)}
    for record in records:
        if record.workload != one.workload or {row.workload_version or 1 for row in (one, other)} != {
            record.card_version
        }:
            continue
        for pair in record.pairs:
            if {(side.framework, side.recipe) for side in (pair.one, pair.other)} == wanted:
                yield pair


def _has_versions(pair: PairRecord, one: RunRow, other: RunRow) -> bool:
    def is_of(side: Contestant, row: RunRow) -> bool:
        return (side.framework, side.recipe, side.version) == (row.framework, row.recipe, framework_version(row))

    straight = is_of(pair.one, one) and is_of(pair.other, other)
    return straight or (is_of(pair.one, other) and is_of(pair.other, one))


def _newest(pairs: Sequence[PairRecord], stage: str, precision: str | None) -> StageRecord | None:
    found = (record for pair in pairs for record in pair.stages)
    return next((r for r in found if r.stage == stage and precision in (None, r.precision)), None)
