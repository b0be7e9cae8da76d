"""Names of lines that measured the same work: by what differs in their code and their machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from trainmark.analyse.identity import differences, identity_of
from trainmark.analyse.origin import origin_of, pooling_key
from trainmark.store.rows import RunRow

_SHORT = 8
_LONG = 24
_MAX_MORE = 2
_FEW = 2
"""Parts of a path that are shown whole."""
_NAMED = frozenset({"commit", "changes", "framework", "trainmark", "cores"})
"""Facts that have words of their own."""
_Differences = dict[tuple[str | None, ...], dict[str, str | None]]
"""By the hashes of the code and the machine of both."""


def name_lines(firsts: Sequence[RunRow]) -> dict[str, str]:
    """By run id; empty for a line whose work was measured only once, or that differs in its unit only."""
    works = [origin_of(row).work_in_any_unit for row in firsts]
    environments = [pooling_key(row)[1:] for row in firsts]
    representatives: dict[str, dict[object, RunRow]] = {}
    for row, work, environment in zip(firsts, works, environments, strict=True):
        representatives.setdefault(work, {}).setdefault(environment, row)
    names = _name_variants(list(of_work.values()) for of_work in representatives.values())
    return {
        row.id: names.get(representatives[work][environment].id, "")
        for row, work, environment in zip(firsts, works, environments, strict=True)
    }


def name_apart(one: RunRow, other: RunRow) -> tuple[str, str]:
    """Names of two environments by what differs; both empty if nothing that has a name differs."""
    names = _name_variants([[one, other]])
    return names[one.id], names[other.id]


def _name_variants(works: Iterable[Sequence[RunRow]]) -> dict[str, str]:
    """By row id. `works` has, for each work, one row of every environment.

    What differs within any work is part of every name, so that all names of a table mention the same things.
    """
    several = [rows for rows in works if len(rows) > 1]
    facts = {row.id: _environment_words(row) for rows in several for row in rows}
    differing = {
        place
        for rows in several
        for place, values in enumerate(zip(*(facts[row.id] for row in rows), strict=True))
        if len(set(values)) > 1
    }
    names = {
        row_id: " ".join(value for place, value in enumerate(values) if place in differing and value)
        for row_id, values in facts.items()
    }
    known: _Differences = {}
    for rows in several:
        names |= _tell_apart(rows, names, known)
    return names


def _tell_apart(rows: Sequence[RunRow], names: dict[str, str], known: _Differences) -> dict[str, str]:
    """Longer names for rows of one work whose names are still the same: by the first other facts that differ."""
    found: dict[str, str] = {}
    for row in rows:
        same = [other for other in rows if names[other.id] == names[row.id]]
        more = {
            name: value for other in same if other is not row for name, value in _differing(row, other, known).items()
        }
        words = [_say(name, value) for name, value in list(more.items())[:_MAX_MORE]]
        if not words and len(same) > 1 and (place := origin_of(row).place):
            words = [shorten(place, [origin_of(other).place or "" for other in same])]
        found[row.id] = " ".join([names[row.id], *words]).strip()
    return found


def _differing(row: RunRow, other: RunRow, known: _Differences) -> dict[str, str | None]:
    """What is in the hash of the code or the machine of one and not of the other: by name, for `row`."""
    hashes = (*origin_of(row)[1:3], *origin_of(other)[1:3])
    found = known.get(hashes)  # equal hashes mean equal facts
    if found is None or None in hashes:
        found = known[hashes] = {
            item.name: item.one
            for item in differences(identity_of(row), identity_of(other))
            if item.axis != "work" and item.is_identifying and item.name not in _NAMED
        }
    return found


def _say(name: str, value: str | None) -> str:
    return f"{name} {value[:_LONG]}" if value else f"{name} unknown"


def shorten(place: str, places: Sequence[str]) -> str:
    """Of a path, where it first differs from the others and its end: `lab-a/…/log`. Whole where that is not unique."""
    split = [PurePath(other).parts for other in places]
    shared = next((at for at, parts in enumerate(zip(*split, strict=False)) if len(set(parts)) > 1), 0)

    def short(parts: tuple[str, ...]) -> str:
        return str(PurePath(*parts)) if len(parts) <= _FEW else f"{parts[0]}/…/{parts[-1]}"

    names = [short(parts[shared:]) for parts in split]
    own = short(PurePath(place).parts[shared:])
    return own if names.count(own) == places.count(place) else place


class _Words(NamedTuple):
    """In the order in which a name has them."""

    framework: str
    program: str
    commit: str
    host: str
    cores: str


def _environment_words(row: RunRow) -> _Words:
    """Two sets of uncommitted changes on one commit differ."""
    framework, program, commit, changes = origin_of(row).software
    host, cores = origin_of(row).host, origin_of(row).cores
    return _Words(
        framework=framework or row.framework or "",
        # Of a command, trainmark is the instrument: two versions of it do not make two lines.
        program=f"trainmark {program}" if program and row.source != "command" else "",
        commit=commit[:_SHORT] + (f"+{changes[:_SHORT]}" if commit and changes else ""),
        host=host,
        cores=f"{cores} cores" if cores else "",
    )
