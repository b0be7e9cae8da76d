"""Bandwidth of an all-reduce, by the two usual ways of counting.

Algorithm bandwidth is the size of the buffer over the time. Bus bandwidth is what each rank must send at least,
2 (n - 1) / n of the buffer, over the time: it can be held against the speed of a link, whatever the number of ranks.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """All-reduce of one size."""

    num_bytes: int
    seconds: float
    """Median of the samples."""
    algorithm_gb_per_s: float
    """In units of 10^9 bytes."""
    bus_gb_per_s: float


def summarise_exchange(num_bytes: int, samples_s: Sequence[float], *, num_ranks: int) -> Exchange:
    seconds = statistics.median(samples_s)
    algorithm = num_bytes / seconds / 1e9
    return Exchange(
        num_bytes=num_bytes,
        seconds=seconds,
        algorithm_gb_per_s=algorithm,
        bus_gb_per_s=algorithm * 2 * (num_ranks - 1) / num_ranks,
    )


@dataclass(frozen=True, kw_only=True)
class Network:
    """What `doctor --network` measured."""

    backend: str
    num_ranks: int
    hosts: tuple[str, ...]
    """Without repetition, by the first rank on each."""
    exchanges: tuple[Exchange, ...]
    """By size."""
    left_out_bytes: tuple[int, ...]
    """Sizes that would have taken too long."""

    @property
    def latency_s(self) -> float:
        """Of the smallest size, which is all latency."""
        return self.exchanges[0].seconds


def summarise_network(document: Mapping[str, Any]) -> Network:
    """From the network.json of a measurement."""
    num_ranks = document["num_ranks"]
    return Network(
        backend=document["backend"],
        num_ranks=num_ranks,
        hosts=tuple(dict.fromkeys(document["hosts"])),
        exchanges=tuple(
            summarise_exchange(size["num_bytes"], size["seconds"], num_ranks=num_ranks) for size in document["sizes"]
        ),
        left_out_bytes=tuple(document["left_out_bytes"]),
    )
