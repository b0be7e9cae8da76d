"""Communication: what a step spends on it, and the bandwidth of an all-reduce.

The exposed communication of a step comes from blocks of steps and of twin steps, which exchange no gradients. Medians
are used because a machine stalls now and then, and one stall would dominate the mean of a few pairs. The interval of
the median difference is that of the sign test: the k-th smallest and the k-th largest difference, which cover the
median in at least 95 of 100 measurements whatever the distribution. It needs six pairs; fewer have no interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

from trainmark.store.rows import RunRow


@dataclass(frozen=True, kw_only=True)
class Communication:
    exposed_s: float
    """How much longer a step takes than its twin, including the wait for a slower rank."""
    ci95: tuple[float, float] | None
    step_s: float
    compute_s: float
    """Time of the twin step on the slowest rank."""
    gradient_bytes: int
    allreduce_gb_per_s: float | None
    """Algorithm bandwidth of a buffer as large as the gradients; None if not measured."""
    allreduce_bus_gb_per_s: float | None

    @property
    def fraction(self) -> float:
        """Share of the step."""
        return self.exposed_s / self.step_s


def read_communication(row: RunRow) -> Communication | None:
    """None if it was not measured, or if the outcome is not `ok`."""
    record = row.communication
    if record is None or record.get("reason") is not None or row.outcome != "ok":
        return None
    pairs: list[list[float]] = record["pairs"]
    differences = [step_s - twin_s for step_s, twin_s in pairs]
    num_bytes, samples_s = record["gradient_bytes"], record["all_reduce_s"]
    exchange = summarise_exchange(num_bytes, samples_s, num_ranks=record["num_ranks"]) if samples_s else None
    return Communication(
        exposed_s=statistics.median(differences),
        ci95=median_interval(differences),
        step_s=statistics.median(step_s for step_s, _ in pairs),
        compute_s=statistics.median(twin_s for _, twin_s in pairs),
        gradient_bytes=num_bytes,
        allreduce_gb_per_s=exchange.algorithm_gb_per_s if exchange else None,
        allreduce_bus_gb_per_s=exchange.bus_gb_per_s if exchange else None,
    )


def describe_communication(row: RunRow) -> dict[str, Any] | None:
    found = read_communication(row)
    if found is None:
        return None
    return {**asdict(found), "fraction": found.fraction, "ci95": list(found.ci95) if found.ci95 else None}


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Order statistics k and n + 1 - k, with the largest k that leaves at most 2.5% on either side."""
    num, below, rank = len(values), 0.0, 0
    while (below := below + comb(num, rank) / 2**num) <= 0.025:
        rank += 1
    ordered = sorted(values)
    return (ordered[rank - 1], ordered[num - rank]) if rank else None


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """All-reduce of one size.

    Algorithm bandwidth is the buffer size over the time. Bus bandwidth is what each rank must send at least,
    2 (n - 1) / n of the buffer, over the time: it compares with the speed of a link, whatever the number of ranks.
    """

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
    """Result of `doctor --network`."""

    backend: str
    num_ranks: int
    hosts: tuple[str, ...]
    """Each once, ordered by its first rank."""
    exchanges: tuple[Exchange, ...]
    """Ordered by size."""
    left_out_bytes: tuple[int, ...]
    """Sizes that were skipped because they would take too long."""

    @property
    def latency_s(self) -> float:
        """Time of the smallest size, which is pure latency."""
        return self.exchanges[0].seconds


def summarise_network(document: Mapping[str, Any]) -> Network:
    """From the content of network.json."""
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
