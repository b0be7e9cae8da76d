"""The baseline of a line: the line with the fewest devices in the same environment, by which its speed is divided.

Efficiency is about devices. A baseline with older software or on another host would mix their speed into it, so it is
used only if there is nothing nearer, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainmark.store.rows import RunRow

_Rank = tuple[int, int, str]
_Key = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Baseline:
    index: int
    """Position among the given lines."""
    is_other: bool
    """It was measured in another environment than the line that is divided by it."""


def software_of(row: RunRow) -> tuple[str, str, str, str]:
    """Versions of framework and trainmark, commit, and hash of uncommitted changes; empty if unknown."""
    facts = row.environment
    git = facts["git"] if isinstance(facts.get("git"), dict) else {}
    framework, program = (str(facts.get(name) or "") for name in ("framework", "trainmark"))
    commit, changes = (str(git.get(name) or "") for name in ("commit", "diff_sha256"))
    return framework, program, commit, changes


def host_of(row: RunRow) -> _Key:
    return str(row.environment.get("hostname")), str(row.environment.get("num_cores"))


def baseline_rank(runs: Sequence[RunRow]) -> _Rank:
    """The lowest rank is the baseline, in whatever order lines come: fewest devices, fewest nodes, first run id."""
    first = runs[0]
    return first.devices or 0, first.nodes or 0, min(run.id for run in runs if run.outcome == "ok")


def find_baselines(lines: Sequence[Sequence[RunRow]]) -> list[Baseline | None]:
    """For the runs of each line; None for a line that is a baseline itself.

    All lines have a speed and may be divided by each other.
    """
    ranks = [baseline_rank(runs) for runs in lines]
    index_of = {rank: index for index, rank in enumerate(ranks)}
    own = _find_own([runs[0] for runs in lines], ranks)
    is_baseline = set(own) - {None}
    by_software = _lowest((software_of(runs[0]), rank) for runs, rank in zip(lines, ranks, strict=True))
    fewest = min((rank[:2] for rank in ranks), default=None)
    latest = max((rank for rank in ranks if rank[:2] == fewest), default=None)
    found: list[Baseline | None] = []
    for runs, rank, near in zip(lines, ranks, own, strict=True):
        if near is not None:
            found.append(Baseline(index=index_of[near], is_other=False))
            continue
        others = () if rank in is_baseline else (by_software[software_of(runs[0])], latest)
        far = next((other for other in others if other is not None and other[:2] < rank[:2]), None)
        found.append(None if far is None else Baseline(index=index_of[far], is_other=True))
    return found


def _find_own(rows: Sequence[RunRow], ranks: Sequence[_Rank]) -> list[_Rank | None]:
    """With the same software and host. With another number of nodes the host may differ: it is the host of rank 0."""
    pairs = list(zip(rows, ranks, strict=True))
    by_host = _lowest(((software_of(row), host_of(row)), rank) for row, rank in pairs)
    by_nodes = _lowest(((software_of(row), row.nodes), rank) for row, rank in pairs)
    all_nodes = {row.nodes for row in rows}
    found: list[_Rank | None] = []
    for row, rank in pairs:
        software = software_of(row)
        host = by_host[software, host_of(row)]
        others = (by_nodes.get((software, nodes)) for nodes in all_nodes - {row.nodes})
        near = [host, *(other for other in others if other is not None)]
        best = min(near, key=lambda other: (other[:2], other != host, other))
        found.append(best if best[:2] < rank[:2] else None)
    return found


def _lowest(keyed: Iterable[tuple[_Key, _Rank]]) -> dict[_Key, _Rank]:
    found: dict[_Key, _Rank] = {}
    for key, rank in keyed:
        found[key] = min(rank, found.get(key, rank))
    return found
