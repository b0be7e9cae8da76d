"""Whether two runs of different frameworks may be compared: only where a parity check has shown that they are equal.

A check counts for the versions it was made with: of the workload's card, of both frameworks, and of trainmark's code
that made the runs. What it computed on one device does not count for runs on another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainmark.analyse.identity import framework_version
from trainmark.analyse.parity import MATHEMATICS_LIMIT, ROUNDING_LIMITS
from trainmark.analyse.parity_command import Need, command_for, deciding_variables, needs_of, needs_on, why_no_check
from trainmark.messages import parity as messages
from trainmark.messages.comparison import not_proven_equal
from trainmark.messages.message import Message
from trainmark.runfolder.parity import (
    LEAST_REPEATS,
    LEAST_STEPS,
    MATHEMATICS,
    ROUNDING,
    STAGES,
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
    """Made by another version of the check than the installed one."""
    is_other: Callable[[RunRow], bool] = lambda _: False
    """Whether a run was made by other code, or another framework, than is installed: no check made here counts."""
    store: str | None = None
    """As it was typed: where the commands that this module prints keep a check. None: the default one."""


NOTHING_PROVEN = Proofs()
_OTHER_LIMIT = 1.0
"""Of the stages that measure in units of their own limits."""

Runs = Sequence[RunRow]
"""Of one side: repeats, which differ only by chance."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a check found of a pair, and how the check was made."""

    pair: PairRecord
    device: str
    size: str
    seed: int
    variables: Mapping[str, str]

    def about(self, need: Need) -> Iterator[StageRecord]:
        """Its records of a stage, as far as they are of the precision and device that are needed."""
        for record in self.pair.stages:
            is_precision = need.precision in (None, record.precision)
            if record.stage == need.stage and is_precision and need.device in (None, self.device):
                yield record


def why_not_equal(one: Runs, other: Runs, proofs: Proofs) -> Message | None:
    """None if the two are proven equal."""
    first, second = one[0], other[0]
    if first.workload is None or first.workload != second.workload or {first.source, second.source} != {"trainmark"}:
        return not_proven_equal(one=first.framework, other=second.framework)
    names = {"one": str(first.framework), "other": str(second.framework)}
    impossible = why_no_check(first, second)
    if impossible is not None:
        return messages.parity_impossible(**names, why=impossible)
    disagreeing = _disagreeing(one, other)
    if disagreeing:
        return messages.parity_settings_disagree(**names, names=disagreeing)
    pairs = list(_matching(proofs.current, first, second))
    of_version = [found for found in pairs if _are_of(found.pair, one, other, _has_version)]
    of_code = [found for found in of_version if _are_of(found.pair, one, other, _has_code)]
    of_settings = [found for found in of_code if not _differing(found, one, other)]
    needs = needs_of(first, second)
    missing = [need for need in needs if not _newest_of_each(need, of_settings)]
    command = command_for(first, second, missing or needs, store=proofs.store)
    if missing and any(code_of(row) is None or proofs.is_other(row) for row in (*one, *other)):
        return messages.parity_runs_outdated(**names, then=command)
    of_others = [found for found in of_code if found not in of_settings and _helps(found, missing)]
    failed = _first_failed(needs, of_settings)
    if failed is not None:
        need, (seed, size), record = failed
        steps = max(record.steps or 0, LEAST_STEPS)
        again = command_for(first, second, [need], size=size, steps=steps, seed=seed, store=proofs.store)
        return messages.parity_stage_failed(**names, stage=need.name, worst=record.worst, command=again)
    if of_settings and not of_others:
        return _why_unproven(names, missing, of_settings, command=command)
    if of_code:
        changed = _differing((of_others or of_code)[0], one, other)
        return messages.parity_other_settings(**names, names=changed, then=command)
    if pairs:
        what = "version of trainmark's code" if of_version else "version of a framework"
        return messages.parity_outdated(**names, what=what, command=command)
    if any(_matching(proofs.outdated, first, second)):
        return messages.parity_outdated(**names, what="version of the check", command=command)
    return messages.parity_not_checked(**names, command=command)


def needs_not_met(record: ParityRecord, proofs: Proofs) -> dict[Need, set[str]]:
    """Of a comparison on the device of this check in the usual precisions; the frameworks of the pairs that lack each.

    A check that made them must be of the same code and settings and long enough.
    """
    missing: dict[Need, set[str]] = {}
    for pair in record.pairs:
        sides = (pair.one.framework, pair.other.framework)
        found = [
            _found(other, each)
            for each in proofs.current
            if each.workload == record.workload and _has_settings_of(each, record, sides)
            for other in each.pairs
            if (other.one, other.other) in ((pair.one, pair.other), (pair.other, pair.one))
        ]
        for need in needs_on(record.device, sides):
            if not _newest_of_each(need, found):
                missing.setdefault(need, set()).update(sides)
    return dict(sorted(missing.items(), key=lambda item: (STAGES.index(item[0].stage), str(item[0].precision))))


def _has_settings_of(one: ParityRecord, other: ParityRecord, names: Sequence[str]) -> bool:
    return all(deciding_variables(one.variables, name) == deciding_variables(other.variables, name) for name in names)


def code_of(row: RunRow) -> str | None:
    """The digest of the code that trained; None for runs of older versions, for which no proof counts."""
    found = row.environment.get("training_code")
    return found if isinstance(found, str) and found else None


def _why_unproven(
    names: Mapping[str, str], missing: Sequence[Need], pairs: Sequence[Found], *, command: str
) -> Message | None:
    """None if nothing is missing."""
    not_run = [need for need in missing if not any(True for found in pairs for _ in found.about(need))]
    if not_run:
        device = next((need.device for need in not_run if need.device is not None), None)
        stages = [need.name for need in not_run]
        return messages.parity_stage_missing(**names, stages=stages, device=device, command=command)
    if missing:
        return messages.parity_stage_short(
            **names, stage=missing[0].name, steps=LEAST_STEPS, repeats=LEAST_REPEATS, command=command
        )
    return None


def _first_failed(needs: Sequence[Need], pairs: Sequence[Found]) -> tuple[Need, tuple[int, str], StageRecord] | None:
    """With its seed and size. It is said before what is missing: to make that takes hours and would not help.

    A stage holds if its newest record of every seed and size does: to repeat it until one holds is not enough.
    """
    newest = ((need, key, record) for need in needs for key, record in _newest_of_each(need, pairs).items())
    return next(((need, key, record) for need, key, record in newest if not _holds(record)), None)


def _helps(found: Found, missing: Sequence[Need]) -> bool:
    return any(_newest_of_each(need, [found]) for need in missing)


# -- stages ------------------------------------------------------------------------------------------------------------


def _newest_of_each(need: Need, pairs: Sequence[Found]) -> dict[tuple[int, str], StageRecord]:
    """By seed and size, of what proves something. A failure after many steps is not undone by fewer steps."""
    newest: dict[tuple[int, str], StageRecord] = {}
    for found in pairs:
        for record in filter(_counts, found.about(need)):
            newer = newest.setdefault((found.seed, found.size), record)
            if _holds(newer) and (record.steps or 0) > (newer.steps or 0):
                newest[found.seed, found.size] = record
    return newest


def _counts(record: StageRecord) -> bool:
    """A short trajectory can show a difference, but that there is none it cannot."""
    return not (record.is_short and _holds(record))


def _holds(record: StageRecord) -> bool:
    """By the limits of this code, not by those that a file states."""
    limits = {MATHEMATICS: MATHEMATICS_LIMIT, ROUNDING: ROUNDING_LIMITS.get(record.precision, 0.0)}
    limit = limits.get(record.stage, _OTHER_LIMIT)
    return record.holds and not record.failed and record.measured is not None and record.measured <= limit


# -- pairs -------------------------------------------------------------------------------------------------------------


def _matching(records: Sequence[ParityRecord], one: RunRow, other: RunRow) -> Iterator[Found]:
    """Of the same work, in any versions of frameworks and code."""
    wanted = {(row.framework, row.recipe) for row in (one, other)}
    for record in records:
        if record.workload != one.workload or {row.workload_version or 1 for row in (one, other)} != {
            record.card_version
        }:
            continue
        for pair in record.pairs:
            if {(side.framework, side.recipe) for side in (pair.one, pair.other)} == wanted:
                yield _found(pair, record)


def _found(pair: PairRecord, record: ParityRecord) -> Found:
    return Found(pair=pair, device=record.device, size=record.size, seed=record.seed, variables=record.variables)


def _are_of(pair: PairRecord, one: Runs, other: Runs, check: Callable[[Contestant, RunRow], bool]) -> bool:
    """Whether each side of the pair is that of all runs of one side."""
    is_straight = (pair.one.framework, pair.one.recipe) == (one[0].framework, one[0].recipe)
    sides = (one, other) if is_straight else (other, one)
    return all(check(side, row) for side, rows in zip((pair.one, pair.other), sides, strict=True) for row in rows)


def _has_version(side: Contestant, row: RunRow) -> bool:
    packages = row.environment.get("packages")
    known = packages if isinstance(packages, dict) else {}
    return side.version == framework_version(row) and all(known.get(name) == own for name, own in side.parts.items())


def _has_code(side: Contestant, row: RunRow) -> bool:
    return bool(side.code) and side.code == code_of(row)


# -- settings of the environment ---------------------------------------------------------------------------------------


def _differing(found: Found, one: Runs, other: Runs) -> list[str]:
    """Variables that a framework had other values of in the check than in its runs."""
    changed: set[str] = set()
    for row in (*one, *other):
        in_run, in_check = _settings(row), deciding_variables(found.variables, str(row.framework))
        changed |= {name for name in in_run.keys() | in_check.keys() if in_run.get(name) != in_check.get(name)}
    return sorted(changed)


def _disagreeing(one: Runs, other: Runs) -> list[str]:
    """Variables that matter to several of the runs, which had different values: no check has both."""
    values: dict[str, set[str]] = {}
    for row in (*one, *other):
        settings = _settings(row)
        for name in {name for each in (*one, *other) for name in _settings(each)}:
            if deciding_variables({name: "set"}, str(row.framework)):
                values.setdefault(name, set()).add(settings.get(name, ""))
    return sorted(name for name, own in values.items() if len(own) > 1)


def _settings(row: RunRow) -> dict[str, str]:
    recorded = row.environment.get("variables")
    known = {str(name): str(value) for name, value in recorded.items()} if isinstance(recorded, dict) else {}
    return deciding_variables(known, str(row.framework))
