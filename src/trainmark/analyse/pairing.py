"""Which cells of two sides belong together: the same work, apart from what is varied on purpose.

A group is the runs of one cell, one code and one machine on one side. Groups are paired if nothing differs in their
work but what may: framework, recipe, precision and the like, or what the user varies. Groups that are of the same thing
but differ in more are paired too, so that a comparison can say why they are not comparable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from trainmark.analyse.identity import Identity, identity_of
from trainmark.analyse.origin import pooling_key
from trainmark.analyse.table import without_replaced
from trainmark.errors import InputError
from trainmark.store.rows import RunRow
from trainmark.units import format_count

FREE = frozenset({"framework", "recipe", "precision", "device", "seed", "learning rate", "target", "log format"})
"""Facts of the work that may differ: the question is then about them."""
VARIABLE = frozenset(
    {"command", "version", "model", "size", "data", "epochs", "nodes", "devices", "batch size per device"}
)
"""Facts of the work that may differ only if the user says that they are the question."""
_WHAT = ("workload", "command", "model")
"""The facts that name what is trained."""
UNJOINED = frozenset({"log"})
"""Stands for facts that a log does not tell: it makes every log its own work, also inside one folder."""
_GENERIC_UNIT = "samples"
"""Counts the same things as images, clips or sentences; steps are another thing."""
_STEP_UNITS = ("iterations", "steps")
_UNKNOWN = "unknown"
_LONG = 12


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of one cell, one code and one machine."""

    runs: tuple[RunRow, ...]
    """At least one, those that ended well first."""

    @property
    def first(self) -> RunRow:
        return self.runs[0]

    @cached_property
    def identity(self) -> Identity:
        return identity_of(self.first)

    @cached_property
    def work(self) -> Mapping[str, str]:
        return {name: value for name, value in self.identity.facts["work"].items() if name not in UNJOINED}

    @property
    def work_key(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.work.items()))

    @property
    def what(self) -> str | None:
        return next((self.work[name] for name in _WHAT if name in self.work), None)


@dataclass(frozen=True, kw_only=True)
class Pair:
    a: Group
    b: Group
    blocking: tuple[str, ...] = ()
    """Names of the facts of the work that differ and may not."""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    pairs: tuple[Pair, ...]
    only_a: tuple[Group, ...] = field(default=())
    only_b: tuple[Group, ...] = field(default=())


def group_rows(rows: Sequence[RunRow], *, is_one_place: bool = False) -> list[Group]:
    """In the order of their first runs. `is_one_place`: the user named one folder of logs, so its logs are repeats.

    A run that failed may not know its code or machine: it joins the first group of its cell, or is one of its own.
    """
    groups: dict[tuple[object, ...], list[RunRow]] = {}
    by_cell: dict[str, tuple[object, ...]] = {}
    counted = without_replaced(rows)
    for row in sorted(counted, key=lambda row: row.outcome != "ok"):
        key = _key(row, is_one_place=is_one_place)
        if row.outcome != "ok":
            key = by_cell.get(row.cell_id, key)
        by_cell.setdefault(row.cell_id, key)
        groups.setdefault(key, []).append(row)
    return [Group(runs=tuple(runs)) for runs in groups.values()]


def _key(row: RunRow, *, is_one_place: bool) -> tuple[object, ...]:
    _, code, machine, place, *rest = pooling_key(row)
    facts = identity_of(row).facts["work"]
    work = tuple(sorted((name, value) for name, value in facts.items() if name not in UNJOINED))
    return work, code, machine, None if is_one_place else place, *rest


def pair_groups(a: Sequence[Group], b: Sequence[Group], *, vary: Collection[str] = ()) -> Pairing:
    """Equal work first, then the nearest: two groups are paired if neither has another partner that is as near."""
    free = FREE | set(vary)
    left_a, left_b = list(a), list(b)
    pairs: list[Pair] = []
    # Two single things that the user named are compared in any case: the answer says why they are not comparable.
    matches = (_match_equal, _match_near, _match_any if len(a) == len(b) == 1 else _match_apart)
    for match in matches:
        for one, other in match(tuple(left_a), tuple(left_b), free):
            pairs.append(Pair(a=one, b=other, blocking=_blocking(one, other, free)))
            left_a.remove(one)
            left_b.remove(other)
    order = {id(group): place for place, group in enumerate(a)}
    pairs.sort(key=lambda pair: order[id(pair.a)])
    return Pairing(pairs=tuple(pairs), only_a=tuple(left_a), only_b=tuple(left_b))


Match = Iterator[tuple[Group, Group]]


def _match_equal(a: Sequence[Group], b: Sequence[Group], _: Collection[str]) -> Match:
    by_work = {group.work_key: group for group in b}
    return ((group, by_work[group.work_key]) for group in a if group.work_key in by_work)


def _match_near(a: Sequence[Group], b: Sequence[Group], free: Collection[str]) -> Match:
    return _match_mutual([(one, other) for one in a for other in b if not _blocking(one, other, free)])


def _match_apart(a: Sequence[Group], b: Sequence[Group], _: Collection[str]) -> Match:
    """Of the same thing, though not comparable."""
    return _match_mutual([(one, other) for one in a for other in b if one.what is not None and one.what == other.what])


def _match_any(a: Sequence[Group], b: Sequence[Group], _: Collection[str]) -> Match:
    return iter(zip(a, b, strict=True))


def _match_mutual(candidates: Sequence[tuple[Group, Group]]) -> Match:
    """Pairs in which each is the only nearest partner of the other among those that are left."""
    near: dict[int, list[tuple[Group, Group]]] = {}
    for one, other in candidates:
        near.setdefault(len(_differing(one.work, other.work)), []).append((one, other))
    taken: set[int] = set()
    for _, pairs in sorted(near.items()):
        left = [pair for pair in pairs if not taken & {id(pair[0]), id(pair[1])}]
        partners = Counter(id(group) for pair in left for group in pair)
        for pair in left:
            if all(partners[id(group)] == 1 for group in pair):
                taken |= {id(group) for group in pair}
                yield pair


def _blocking(one: Group, other: Group, free: Collection[str]) -> tuple[str, ...]:
    found = [name for name in _differing(one.work, other.work) if name not in free]
    if one.work.get("workload") is not None and one.work.get("workload") == other.work.get("workload"):
        found = [name for name in found if name != "model"]  # what a log calls a workload that we know
    if _GENERIC_UNIT in (one.work.get("unit"), other.work.get("unit")) and not _counts_steps(one, other):
        found = [name for name in found if name != "unit"]
    return tuple(found)


def _counts_steps(*groups: Group) -> bool:
    return any(group.work.get("unit") in _STEP_UNITS for group in groups)


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]


def refuse_ambiguous(groups: Sequence[Group], others: Sequence[Group], *, side: str, word: str) -> None:
    """Two measurements of one cell on one side, of two commits for example: nobody said which one is meant."""
    by_work: dict[object, list[Group]] = {}
    for group in groups:
        by_work.setdefault(group.work_key, []).append(group)
    for same in by_work.values():
        if len(same) == 1 or not any(not _blocking(same[0], other, FREE) for other in others):
            continue
        name, values = _name_apart(same)
        counts = [format_count(len(group.runs), "runs") for group in same]
        listed = ", ".join(f"{name} {value} ({count})" for value, count in zip(values, counts, strict=True))
        known = next((value for value in reversed(values) if value != _UNKNOWN), None)
        hint = f"choose one, such as: {_narrow(word, name, known)}" if known else "pass run ids"
        raise InputError(f"{side} has {len(same)} measurements of {same[0].what}: {listed}", hint=hint)


def _name_apart(groups: Sequence[Group]) -> tuple[str, list[str]]:
    """The first fact in which the groups differ, with the value of each."""
    facts = [{**group.identity.facts["code"], **group.identity.facts["machine"]} for group in groups]
    folders = [group.identity.place for group in groups]
    names = [name for one in facts for name in one]
    for name in dict.fromkeys(names):
        values = [one.get(name, _UNKNOWN) for one in facts]
        if len(set(values)) == len(values) or (name == "commit" and len(set(values)) > 1):
            return name, [value[:_LONG] if len(value) == 40 else value for value in values]
    return "folder", [folder or _UNKNOWN for folder in folders]


def _narrow(word: str, name: str, value: str) -> str:
    if name == "commit" and "@" not in word and "=" not in word:
        return f"{word}@{value}"
    if "=" in word:
        return f"{word},{name.replace(' ', '-')}={value}"
    return f"{word}:{name.replace(' ', '-')}={value}"
