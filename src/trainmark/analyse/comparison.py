"""Two sides compared cell by cell: which runs count, the verdict on each cell, and what differs between the sides.

Pure: rows in, verdicts out. `verdict.py` has the statistics, `pairing.py` the join.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from trainmark.analyse import laws
from trainmark.analyse.comparable import Counted, LeftOut, count_runs, speed_of, why_left_out, without
from trainmark.analyse.distributions import t_quantile
from trainmark.analyse.estimate import Ratio
from trainmark.analyse.identity import Difference, differences, identity_of
from trainmark.analyse.naming import cell_name
from trainmark.analyse.origin import pooling_key
from trainmark.analyse.pairing import UNJOINED, Group, Pair, group_rows, pair_groups, refuse_ambiguous
from trainmark.analyse.parity_verdict import NOTHING_PROVEN, Proofs, why_not_equal
from trainmark.analyse.training import epochs_to_train
from trainmark.analyse.verdict import DEFAULT_TOLERANCE, Judgement, Sides, Verdict, judge, judge_cells
from trainmark.errors import InputError
from trainmark.messages.comparison import (
    differs_in,
    far_run,
    no_runs,
    run_refused,
    side_too_noisy,
    work_differs,
)
from trainmark.messages.message import Message
from trainmark.store.rows import RunRow
from trainmark.units import format_count


@dataclass(frozen=True, kw_only=True)
class Side:
    """What the user named, and the runs that it stands for."""

    word: str
    rows: Sequence[RunRow]
    context: Sequence[RunRow] = ()
    """All runs of the store: their spread is the history of a cell, and laws hold among them."""
    is_one_place: bool = False
    """A folder of logs: those of one cell are repeats, since the user named them together."""
    store: str | None = None
    """The folder of the store, as the user named it; None for logs."""


@dataclass(frozen=True, kw_only=True)
class CellComparison:
    name: str
    a: Group
    b: Group
    judgement: Judgement
    values: tuple[float | None, float | None]
    """Geometric means of the runs that count, of A and B; None if there are none, or if they are too noisy."""
    unit: str | None
    """None if the sides count different things."""
    counted: tuple[tuple[str, ...], tuple[str, ...]]
    """The ids of the runs that count."""
    left_out: tuple[LeftOut, ...]
    doubts: tuple[tuple[Message, ...], tuple[Message, ...]]
    """What was found in the steps of the runs that count, of A and B."""
    differences: tuple[Difference, ...]
    num_history: int
    """Other runs of this cell on this machine, whose spread is shared."""
    epochs: tuple[tuple[float, ...], tuple[float, ...]]
    """Until the target was reached, of each run that reached it. Apart from the speed: each varies for itself."""
    epochs_ratio: Ratio | None = None
    blocking: tuple[str, ...] = ()
    """Names of the facts of the work that make the sides not comparable."""

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict


@dataclass(frozen=True, kw_only=True)
class Comparison:
    a: Side
    b: Side
    cells: tuple[CellComparison, ...]
    only_a: tuple[Group, ...]
    only_b: tuple[Group, ...]
    geomean: Ratio | None
    """Over the cells that are on both sides, comparable and have a ratio; None if there are fewer than two."""
    num_averaged: int
    differences: tuple[Difference, ...]
    """Common to all cells."""
    tolerance: float


def compare(
    a: Side,
    b: Side,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    vary: Collection[str] = frozenset(),
    proofs: Proofs = NOTHING_PROVEN,
) -> Comparison:
    """`proofs`: the parity checks that allow a verdict on two frameworks."""
    _refuse_overlap(a, b)
    for side in (a, b):
        laws.judge([*dict.fromkeys((*side.context, *side.rows))])
    groups_a, groups_b = (group_rows(side.rows, is_one_place=side.is_one_place) for side in (a, b))
    refuse_ambiguous(groups_a, groups_b, side="A", word=a.word)
    refuse_ambiguous(groups_b, groups_a, side="B", word=b.word)
    pairing = pair_groups(groups_a, groups_b, vary=vary)
    context = [*dict.fromkeys((*a.context, *b.context))]
    cells = _judge_pairs(pairing.pairs, context, tolerance=tolerance, proofs=proofs)
    averaged = [cell.judgement for cell in cells if _is_averaged(cell)]
    return Comparison(
        a=a,
        b=b,
        cells=cells,
        only_a=pairing.only_a,
        only_b=pairing.only_b,
        geomean=_average(averaged) if len(averaged) > 1 else None,
        num_averaged=len(averaged),
        differences=_common([cell.differences for cell in cells]),
        tolerance=tolerance,
    )


def _refuse_overlap(a: Side, b: Side) -> None:
    shared = {_content(row) for row in a.rows} & {_content(row) for row in b.rows}
    if shared:
        what = f"{format_count(len(shared), 'runs')} in both A ({a.word}) and B ({b.word})"
        raise InputError(what, hint="narrow one of them, such as: trainmark compare precision=fp32 precision=amp")


# -- verdicts ----------------------------------------------------------------------------------------------------------


def _content(row: RunRow) -> object:
    """A log by its content; a run as an object, since two stores may use the same id."""
    return row.log.get("sha256") or row


def _judge_pairs(
    pairs: Sequence[Pair], context: Sequence[RunRow], *, tolerance: float, proofs: Proofs
) -> tuple[CellComparison, ...]:
    """All comparable cells are judged together: they share their spread and one false discovery rate."""
    counted = [(count_runs(pair.a.runs, "A"), count_runs(pair.b.runs, "B")) for pair in pairs]
    by_work: dict[object, list[RunRow]] = {}
    for row in context:
        by_work.setdefault(identity_of(row).work, []).append(row)
    pasts = [[] if pair.blocking else _find_history(pair.a, pair.b, by_work) for pair in pairs]
    sides = [
        Sides(a=one.values, b=other.values, history=tuple(past))
        for (one, other), past in zip(counted, pasts, strict=True)
    ]
    open_places = [place for place, pair in enumerate(pairs) if not pair.blocking]
    judged = dict(
        zip(open_places, judge_cells([sides[place] for place in open_places], tolerance=tolerance), strict=True)
    )
    return tuple(
        _describe(pair, counted[place], judged.get(place), num_history=sum(map(len, pasts[place])), proofs=proofs)
        for place, pair in enumerate(pairs)
    )


def _find_history(a: Group, b: Group, by_work: Mapping[object, Sequence[RunRow]]) -> list[tuple[float, ...]]:
    """The speeds of other runs of this cell on this machine, in groups of one identity; none for two machines."""
    machine = a.identity.machine
    if machine is None or machine != b.identity.machine:
        return []
    own = {*a.runs, *b.runs}
    groups: dict[tuple[object, ...], list[float]] = {}
    for row in (row for work in {a.identity.work, b.identity.work} for row in by_work.get(work, ())):
        if row in own or identity_of(row).machine != machine or why_left_out(row) is not None:
            continue
        value = speed_of(row)
        if value is not None:
            groups.setdefault(pooling_key(row), []).append(value)
    return [tuple(values) for values in groups.values() if len(values) > 1]


def _describe(
    pair: Pair, counted: tuple[Counted, Counted], judged: Judgement | None, *, num_history: int, proofs: Proofs
) -> CellComparison:
    if judged is not None:
        counted = without(counted[0], judged.far_a, "A"), without(counted[1], judged.far_b, "B")
    one, other = counted
    apart = (*_find_differences(pair), *_find_settings(pair.a.first, pair.b.first))
    epochs = _count_epochs(one.runs), _count_epochs(other.runs)
    judgement = _refuse(pair, counted, apart) if judged is None else _explain(pair, counted, judged, proofs)
    return CellComparison(
        name=_name(pair),
        a=pair.a,
        b=pair.b,
        judgement=judgement,
        values=(_mean_speed(one), _mean_speed(other)),
        unit=None if "unit" in pair.blocking else _find_unit(pair),
        counted=(tuple(row.id for row in one.runs), tuple(row.id for row in other.runs)),
        left_out=(*one.left_out, *other.left_out),
        doubts=(_find_doubts(one, "A", judgement), _find_doubts(other, "B", judgement)),
        differences=apart,
        num_history=num_history,
        epochs=epochs,
        epochs_ratio=judge(*epochs).ratio if all(epochs) else None,
        blocking=pair.blocking,
    )


def _find_doubts(side: Counted, name: str, judgement: Judgement) -> tuple[Message, ...]:
    """Of a side that is too noisy the reason says so, unless it says that the sides are not comparable."""
    if judgement.verdict != "not_comparable" or not side.is_too_noisy:
        return side.doubts
    return (*side.doubts, side_too_noisy(side=name, low=min(side.values), high=max(side.values)))


def _refuse(pair: Pair, counted: tuple[Counted, Counted], apart: Sequence[Difference]) -> Judgement:
    blocking = [found for found in apart if found.axis == "work" and found.name in pair.blocking]
    facts = [differs_in(name=found.name, one=found.one, other=found.other) for found in blocking]
    runs = len(counted[0].values), len(counted[1].values)
    why = work_differs(facts=facts)
    return Judgement(verdict="not_comparable", ratio=None, why=why, runs=runs, more_runs=None, spread=None)


def _explain(pair: Pair, counted: tuple[Counted, Counted], judged: Judgement, proofs: Proofs) -> Judgement:
    """Two frameworks may compute different things; and a side without runs should say what became of them."""
    if pair.a.first.framework != pair.b.first.framework:
        one, other = (side.runs or group.runs for side, group in zip(counted, (pair.a, pair.b), strict=True))
        unequal = why_not_equal(one, other, proofs)
        if unequal is not None:
            is_noisy = any(side.is_too_noisy for side in counted)
            ratio = None if is_noisy else judged.ratio
            return replace(judged, verdict="not_comparable", ratio=ratio, why=unequal, more_runs=None)
    for name, side in zip("AB", counted, strict=True):
        if not side.values and side.left_out:
            return replace(judged, why=no_runs(side=name, why=side.left_out[0].why))
        if side.why_refused is not None:
            return replace(judged, verdict="inconclusive", why=run_refused(side=name, why=side.why_refused))
        if side.is_too_noisy:
            why = side_too_noisy(side=name, low=min(side.values), high=max(side.values))
            more = judged.more_runs or _FEW_MORE
            return replace(judged, verdict="inconclusive", ratio=None, why=why, more_runs=more, error=None)
        gap = side.gap_of_far_repeat
        if judged.verdict == "same" and gap is not None:  # the run that was left out may be what has changed
            why = far_run(side=name, gap=gap)
            return replace(judged, verdict="inconclusive", why=why, more_runs=_FEW_MORE)
    return judged


def _is_averaged(cell: CellComparison) -> bool:
    """A mean is a statement on who is faster, so what is not comparable has no part in it."""
    return cell.verdict != "not_comparable" and cell.judgement.error is not None and cell.unit is not None


def _count_epochs(runs: Sequence[RunRow]) -> tuple[float, ...]:
    found = (epochs_to_train(row) for row in runs)
    return tuple(epochs for epochs in found if epochs is not None and epochs > 0)


def _mean_speed(side: Counted) -> float | None:
    """The geometric mean; None for what no output shows."""
    if not side.values or side.is_too_noisy:
        return None
    return math.exp(fmean(math.log(value) for value in side.values))


def _average(judged: Sequence[Judgement]) -> Ratio:
    """The geometric mean of the ratios; the errors of different cells are independent."""
    logs = [math.log(item.ratio.value) for item in judged if item.ratio is not None]
    variances = [(item.error or 0.0) ** 2 for item in judged]
    weight = sum(
        variance**2 / item.dof for variance, item in zip(variances, judged, strict=True) if item.dof is not None
    )
    value, total = math.exp(fmean(logs)), sum(variances)
    half = t_quantile(0.05, total**2 / weight) * math.sqrt(total) / len(logs)
    return Ratio(value=value, ci95=(value * math.exp(-half), value * math.exp(half)))


# -- names and differences ---------------------------------------------------------------------------------------------

_FEW_MORE = 2
"""Runs to ask for where their mean is not known at all."""
_FIELDS = ("framework", "recipe", "precision", "devices", "batch_size_per_device", "data", "epochs", "device")
_SETTINGS = ("num_threads", "flags")


def _find_unit(pair: Pair) -> str:
    """The more specific one, where a log calls images samples."""
    return next((group.first.unit for group in (pair.a, pair.b) if group.first.unit != "samples"), pair.a.first.unit)


def _name(pair: Pair) -> str:
    """Of what both sides have in common."""
    one, other = pair.a.first, pair.b.first
    apart: dict[str, Any] = {name: None for name in _FIELDS if getattr(one, name) != getattr(other, name)}
    return cell_name(replace(one, **apart))


def _find_differences(pair: Pair) -> list[Difference]:
    return [item for item in differences(pair.a.identity, pair.b.identity) if item.name not in UNJOINED]


def _find_settings(one: RunRow, other: RunRow) -> Iterator[Difference]:
    """Switches of the framework, which a run records as it finds them."""
    first, second = (_settings(row.environment) for row in (one, other))
    for name in dict.fromkeys((*first, *second)):
        if first.get(name) != second.get(name):
            yield Difference(
                axis="settings", name=name, one=first.get(name), other=second.get(name), is_identifying=False
            )


def _settings(environment: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _SETTINGS:
        value = environment.get(name)
        parts = value if isinstance(value, dict) else {name: value}
        found |= {str(part): str(own) for part, own in parts.items() if own is not None}
    return found


def _common(found: Sequence[Sequence[Difference]]) -> tuple[Difference, ...]:
    if not found:
        return ()
    return tuple(item for item in found[0] if all(item in others for others in found[1:]))
