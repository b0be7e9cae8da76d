"""The baseline of a line: the line with the fewest devices in the same environment, by which its speed is divided.

Efficiency is about devices. A baseline with older software or on another host would mix their speed into it, so it is
used only if there is nothing nearer, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainmark.analyse.origin import origin_of
from trainmark.store.rows import RunRow

_Rank = tuple[int, int, str]
_Key = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Baseline:
    index: int
    """Position among the given lines."""
    is_other: bool
    """It was measured in another environment than the line that is divided by it."""


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
    origins = [origin_of(runs[0]) for runs in lines]
    software = [origin.software for origin in origins]
    hosts = [(*origin.software, origin.host, origin.cores) for origin in origins]
    own = _find_own(hosts, [(*same, runs[0].nodes) for same, runs in zip(software, lines, strict=True)], ranks)
    is_baseline = set(own) - {None}
    by_software = _lowest(zip(software, ranks, strict=True))
    fewest = min((rank[:2] for rank in ranks), default=None)
    latest = max((rank for rank in ranks if rank[:2] == fewest), default=None)
    found: list[Baseline | None] = []
    for same, rank, near in zip(software, ranks, own, strict=True):
        if near is not None:
            found.append(Baseline(index=index_of[near], is_other=False))
            continue
        others = () if rank in is_baseline else (by_software[same], latest)
        far = next((other for other in others if other is not None and other[:2] < rank[:2]), None)
        found.append(None if far is None else Baseline(index=index_of[far], is_other=True))
    return found


def _find_own(hosts: Sequence[_Key], nodes: Sequence[_Key], ranks: Sequence[_Rank]) -> list[_Rank | None]:
    """With the same software and host. With another number of nodes the host may differ: it is the host of rank 0.

    `hosts` and `nodes`: of each line the software with the host, and with the number of nodes.
    """
    by_host, by_nodes = _lowest(zip(hosts, ranks, strict=True)), _lowest(zip(nodes, ranks, strict=True))
    all_nodes = {key[-1] for key in nodes}
    found: list[_Rank | None] = []
    for host, (*software, own), rank in zip(hosts, nodes, ranks, strict=True):
        others = (by_nodes.get((*software, other)) for other in all_nodes - {own})
        near = [by_host[host], *(other for other in others if other is not None)]
        best = min(near, key=lambda other: (other[:2], other != near[0], other))
        found.append(best if best[:2] < rank[:2] else None)
    return found


def _lowest(keyed: Iterable[tuple[_Key, _Rank]]) -> dict[_Key, _Rank]:
    found: dict[_Key, _Rank] = {}
    for key, rank in keyed:
        found[key] = min(rank, found.get(key, rank))
    return found
