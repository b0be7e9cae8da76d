"""Which line another is divided by: the fewest devices in the same environment.

Efficiency is about devices. A base of older software, or of another host, would put their speed into it; such a one is
taken only where a line has nothing else to be compared with, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainmark.analyse.speedup import base_place
from trainmark.store.rows import RunRow

_Place = tuple[int, int, str]
_Key = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Base:
    index: int
    """In the lines that were given."""
    is_other: bool
    """Of another environment than the line that is divided."""


def software_of(row: RunRow) -> tuple[str, str, str, str]:
    """Framework, trainmark, commit, and a digest of what was changed since; empty where unknown."""
    facts = row.environment
    git = facts["git"] if isinstance(facts.get("git"), dict) else {}
    framework, program = (str(facts.get(name) or "") for name in ("framework", "trainmark"))
    commit, changes = (str(git.get(name) or "") for name in ("commit", "diff_sha256"))
    return framework, program, commit, changes


def seat_of(row: RunRow) -> _Key:
    return str(row.environment.get("hostname")), str(row.environment.get("num_cores"))


def find_bases(lines: Sequence[Sequence[RunRow]]) -> list[Base | None]:
    """For the runs of each line, in whatever order they come; None for a line that is a base itself.

    All of them are measured and may be divided by each other.
    """
    places = [base_place(runs) for runs in lines]
    index_of = {place: index for index, place in enumerate(places)}
    own = _find_own([runs[0] for runs in lines], places)
    is_base = set(own) - {None}
    by_software = _lowest((software_of(runs[0]), place) for runs, place in zip(lines, places, strict=True))
    fewest = min((place[:2] for place in places), default=None)
    latest = max((place for place in places if place[:2] == fewest), default=None)
    found: list[Base | None] = []
    for runs, place, near in zip(lines, places, own, strict=True):
        if near is not None:
            found.append(Base(index=index_of[near], is_other=False))
            continue
        others = () if place in is_base else (by_software[software_of(runs[0])], latest)
        far = next((other for other in others if other is not None and other[:2] < place[:2]), None)
        found.append(None if far is None else Base(index=index_of[far], is_other=True))
    return found


def _find_own(rows: Sequence[RunRow], places: Sequence[_Place]) -> list[_Place | None]:
    """Of the same software and host. On another number of nodes the host may be another: rank 0 is where it is."""
    pairs = list(zip(rows, places, strict=True))
    by_seat = _lowest(((software_of(row), seat_of(row)), place) for row, place in pairs)
    by_nodes = _lowest(((software_of(row), row.nodes), place) for row, place in pairs)
    all_nodes = {row.nodes for row in rows}
    found: list[_Place | None] = []
    for row, place in pairs:
        software = software_of(row)
        seat = by_seat[software, seat_of(row)]
        others = (by_nodes.get((software, nodes)) for nodes in all_nodes - {row.nodes})
        near = [seat, *(other for other in others if other is not None)]
        best = min(near, key=lambda other: (other[:2], other != seat, other))
        found.append(best if best[:2] < place[:2] else None)
    return found


def _lowest(keyed: Iterable[tuple[_Key, _Place]]) -> dict[_Key, _Place]:
    found: dict[_Key, _Place] = {}
    for key, place in keyed:
        found[key] = min(place, found.get(key, place))
    return found
